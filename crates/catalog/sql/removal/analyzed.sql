-- How many removals the planner believes in; below zero when it was never told. No parameters.
select reltuples::bigint from pg_class where oid = 'file_removal'::regclass

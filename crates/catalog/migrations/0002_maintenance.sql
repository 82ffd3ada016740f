-- Maintenance: who works on what, what was done, and what is kept so that the work stays small.

-- One worker a task and catalog. The fence grows with each holder: what an old holder still tries is refused.
create table lease (
  catalog_id bigint not null references catalog,
  task text not null,
  holder uuid,
  fence bigint not null default 0,
  expires_at timestamptz not null default '-infinity',
  primary key (catalog_id, task)
);

-- The ledger of runs. A run without a finish whose lease has run out died with its server.
create table maintenance_run (
  run_id bigint generated always as identity primary key,
  catalog_id bigint not null references catalog,
  task text not null,
  started_at timestamptz not null default clock_timestamp(),
  finished_at timestamptz,
  result json,
  error text,
  constraint finished_runs_say_what_came_out check (finished_at is null or (result is null) <> (error is null))
);
create index maintenance_run_by_catalog on maintenance_run (catalog_id, run_id);
create index maintenance_run_by_age on maintenance_run (catalog_id, started_at);

-- Pending files that somebody reads at the moment, or that could not be read and wait; failed ones with the reason.
create table hydration (
  catalog_id bigint not null,
  data_file_id bigint not null,
  attempts int not null default 0,
  next_attempt_at timestamptz not null,
  claimed_by uuid,
  last_error text,
  primary key (catalog_id, data_file_id)
);

-- Files that a compaction is rewriting: planners leave them out.
create table compaction_claim (
  catalog_id bigint not null,
  data_file_id bigint not null,
  claimed_by uuid not null,
  claimed_until timestamptz not null,
  primary key (catalog_id, data_file_id)
);
create index compaction_claim_by_holder on compaction_claim (claimed_by);

-- Live files a table, spec and partition tuple, as of partition_fold.folded_snapshot. A tuple is known by a digest of
-- its text, because values may be longer than an index entry. "Small" is below partition_fold.target_bytes.
create table partition_total (
  catalog_id bigint not null,
  table_id bigint not null,
  spec_id bigint not null,
  tuple uuid not null,
  partition_values text[],
  file_count bigint not null,
  total_bytes bigint not null,
  small_file_count bigint not null,
  small_file_bytes bigint not null,
  dv_count bigint not null,
  primary key (catalog_id, table_id, spec_id, tuple)
) with (fillfactor = 80);
create index partition_total_by_debt on partition_total (catalog_id, small_file_count desc)
  where small_file_count > 0;

create table partition_fold (
  catalog_id bigint primary key references catalog,
  folded_snapshot bigint not null,
  target_bytes bigint not null
);

-- Set once expiry has removed all that a dropped table left behind; the identity itself stays.
alter table table_identity add column purged boolean not null default false;
drop index table_identity_dropped;
create index table_identity_dropped on table_identity (catalog_id, dropped_snapshot)
  where dropped_snapshot is not null and not purged;

-- What has ended, across tables, in the order in which expiry takes it.
create index data_file_expiring on data_file (catalog_id, end_snapshot, data_file_id) where end_snapshot is not null;
create index delete_file_expiring on delete_file (catalog_id, end_snapshot, delete_file_id)
  where end_snapshot is not null;
create index table_version_expiring on table_version (catalog_id, end_snapshot) where end_snapshot is not null;
create index table_column_expiring on table_column (catalog_id, end_snapshot) where end_snapshot is not null;
create index partition_spec_expiring on partition_spec (catalog_id, end_snapshot) where end_snapshot is not null;
create index sort_spec_expiring on sort_spec (catalog_id, end_snapshot) where end_snapshot is not null;
create index view_expiring on view (catalog_id, end_snapshot) where end_snapshot is not null;
create index idempotency_key_by_snapshot on idempotency_key (catalog_id, snapshot_id);

-- the removal ledger, newest first
create index file_removal_by_catalog on file_removal (catalog_id, removal_id);

-- How the live files a partition changed between two snapshots, (after, upto]. Only tables that the change rows name
-- are looked at: data_file_by_begin, delete_file_by_begin, data_file_expiring, delete_file_expiring. A file that came
-- and went counts twice, to nothing. The rows of both snapshots must still be there.
create function partition_delta(catalog bigint, after bigint, upto bigint, target bigint)
returns table (
  table_id bigint, spec_id bigint, tuple uuid, partition_values text[], file_count bigint, total_bytes bigint,
  small_file_count bigint, small_file_bytes bigint, dv_count bigint
) language sql stable as $$
  with touched as materialized (
    select distinct c.object_id as table_id from snapshot_change c
    where c.catalog_id = catalog and c.snapshot_id > after and c.snapshot_id <= upto
      and c.kind in ('table_inserted_into', 'table_deleted_from', 'table_compacted')
  ), event as (
    select f.table_id, f.spec_id, f.partition_values, f.file_size_bytes, 1 as files, 0 as vectors
    from touched t join data_file f on f.catalog_id = catalog and f.table_id = t.table_id
      and f.begin_snapshot > after and f.begin_snapshot <= upto
    union all
    select f.table_id, f.spec_id, f.partition_values, f.file_size_bytes, -1, 0
    from data_file f
    where f.catalog_id = catalog and f.end_snapshot > after and f.end_snapshot <= upto
    union all
    select f.table_id, f.spec_id, f.partition_values, f.file_size_bytes, 0, 1
    from touched t join delete_file d on d.catalog_id = catalog and d.table_id = t.table_id
      and d.begin_snapshot > after and d.begin_snapshot <= upto
    join data_file f on f.catalog_id = catalog and f.data_file_id = d.data_file_id
    union all
    select f.table_id, f.spec_id, f.partition_values, f.file_size_bytes, 0, -1
    from delete_file d
    join data_file f on f.catalog_id = catalog and f.data_file_id = d.data_file_id
    where d.catalog_id = catalog and d.end_snapshot > after and d.end_snapshot <= upto
  )
  select e.table_id, coalesce(e.spec_id, 0), md5(coalesce(e.partition_values::text, ''))::uuid, e.partition_values,
         sum(e.files)::bigint, sum(e.files * e.file_size_bytes)::bigint,
         coalesce(sum(e.files) filter (where e.file_size_bytes < target), 0)::bigint,
         coalesce(sum(e.files * e.file_size_bytes) filter (where e.file_size_bytes < target), 0)::bigint,
         sum(e.vectors)::bigint
  from event e
  group by e.table_id, e.spec_id, e.partition_values
$$;

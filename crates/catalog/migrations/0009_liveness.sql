-- Runs say now and then that they go on: one that is silent has died with its server.
alter table maintenance_run add column last_seen_at timestamptz;
update maintenance_run set last_seen_at = coalesce(finished_at, started_at);
alter table maintenance_run alter column last_seen_at set default clock_timestamp();
alter table maintenance_run alter column last_seen_at set not null;
alter table maintenance_run add column abandoned boolean not null default false;
create index maintenance_run_open on maintenance_run (catalog_id, last_seen_at) where finished_at is null;
-- what the newest verifications found, for the gauges of every server
create index maintenance_run_verified on maintenance_run (finished_at) where task = 'verify' and result is not null;

-- Files that could not be compacted: planners leave them out until their next attempt is due, others of their group are
-- compacted without them. Gone when the file is compacted or dead.
create table compaction_failure (
  catalog_id bigint not null,
  data_file_id bigint not null,
  attempts int not null,
  next_attempt_at timestamptz not null,
  reason text not null,
  primary key (catalog_id, data_file_id)
);

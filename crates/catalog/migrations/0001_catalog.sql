-- The catalog: versioned metadata of every table, snapshot by snapshot.
--
-- Versioned rows live in [begin_snapshot, end_snapshot). A row is visible at S when
--     begin_snapshot <= S and (end_snapshot is null or S < end_snapshot).
-- A table's own interval bounds its files: dropping a table touches no file row.
--
-- Foreign keys tie everything that DDL writes. The rows that each commit writes by the thousand (snapshot changes,
-- data files, their statistics) carry none: they are written and deleted in the same transactions as their parents,
-- and `verify` looks for strays (docs/adr/0003).

create type column_type as enum (
  'boolean', 'int', 'long', 'float', 'double', 'decimal', 'date', 'time', 'timestamp', 'timestamptz', 'string',
  'uuid', 'binary'
);
create type change_kind as enum (
  'namespace_created', 'namespace_dropped', 'table_created', 'table_dropped', 'table_altered',
  'table_inserted_into', 'table_deleted_from', 'table_compacted', 'view_created', 'view_dropped'
);
create type partition_transform as enum ('identity', 'bucket', 'year', 'month', 'day', 'hour');
create type stats_state as enum ('provided', 'pending', 'failed');
create type removal_kind as enum ('data', 'delete');
create type removal_reason as enum ('snapshot_expiry', 'table_drop', 'compaction_staging');
create type removal_outcome as enum ('deleted', 'absent', 'registered');

-- Every object below `prefix/` in byte order. Two prefixes overlap exactly when one contains the other.
create type text_range as range (subtype = text, collation = "C");

create table catalog (
  catalog_id bigint generated always as identity primary key,
  name text not null unique check (name ~ '^[a-z][a-z0-9_-]{0,62}$'),
  data_path text not null check (data_path <> ''),
  -- canonical spelling of data_path, between `path/` and `path0` ('0' follows '/')
  data_range text_range not null,
  head_snapshot bigint not null default 0 check (head_snapshot >= 0),
  -- time of the head snapshot: later snapshots are never earlier, whatever the clock does
  head_snapshot_time timestamptz not null default clock_timestamp(),
  schema_version bigint not null default 0 check (schema_version >= 0),
  next_namespace_id bigint not null default 1,
  next_table_id bigint not null default 1,
  next_view_id bigint not null default 1,
  next_file_id bigint not null default 1,
  snapshot_retention_seconds bigint check (snapshot_retention_seconds > 0),
  consumer_floor boolean not null default true,
  earliest_snapshot bigint not null default 0,
  earliest_snapshot_time timestamptz,
  live_table_count bigint not null default 0 check (live_table_count >= 0),
  live_file_count bigint not null default 0 check (live_file_count >= 0),
  created_at timestamptz not null default clock_timestamp(),
  constraint expiry_never_passes_head check (earliest_snapshot between 0 and head_snapshot),
  constraint catalog_data_paths_do_not_overlap exclude using gist (data_range with &&)
) with (fillfactor = 10);

create table snapshot (
  catalog_id bigint not null references catalog,
  snapshot_id bigint not null check (snapshot_id >= 0),
  snapshot_time timestamptz not null,
  schema_version bigint not null,
  author text,
  message text,
  primary key (catalog_id, snapshot_id)
);
create index snapshot_by_time on snapshot (catalog_id, snapshot_time, snapshot_id);

create table snapshot_change (
  catalog_id bigint not null,
  snapshot_id bigint not null,
  ordinal int not null,
  kind change_kind not null,
  object_id bigint not null,
  primary key (catalog_id, snapshot_id, ordinal)
);
-- who touched this object since: conflict details, compaction marks in the changefeed
create index snapshot_change_by_object on snapshot_change (catalog_id, object_id, kind, snapshot_id);

create table namespace (
  catalog_id bigint not null references catalog,
  namespace_id bigint not null check (namespace_id > 0),
  name text not null,
  begin_snapshot bigint not null,
  end_snapshot bigint check (end_snapshot > begin_snapshot),
  primary key (catalog_id, namespace_id)
);
create unique index namespace_live_name on namespace (catalog_id, name) where end_snapshot is null;
create index namespace_by_name on namespace (catalog_id, name, begin_snapshot);

-- One row per incarnation, never deleted: consumers keep the last name of a dropped table.
create table table_identity (
  catalog_id bigint not null references catalog,
  table_id bigint not null check (table_id > 0),
  table_uuid uuid not null,
  created_snapshot bigint not null,
  dropped_snapshot bigint check (dropped_snapshot > created_snapshot),
  -- the last snapshot that created, altered or dropped the table
  ddl_snapshot bigint not null,
  last_namespace text not null,
  last_name text not null,
  next_field_id bigint not null check (next_field_id between 1 and 2147483646),
  next_spec_id bigint not null default 1,
  next_sort_id bigint not null default 1,
  primary key (catalog_id, table_id),
  constraint table_uuid_unique unique (catalog_id, table_uuid)
);
create index table_identity_dropped on table_identity (catalog_id, dropped_snapshot) where dropped_snapshot is not null;

-- The row-id allocator and the gross totals at head: narrow and hot, one HOT update a commit.
create table table_counter (
  catalog_id bigint not null,
  table_id bigint not null,
  next_row_id bigint not null default 0 check (next_row_id >= 0),
  record_count bigint not null default 0 check (record_count >= 0),
  file_count bigint not null default 0 check (file_count >= 0),
  file_size_bytes bigint not null default 0 check (file_size_bytes >= 0),
  primary key (catalog_id, table_id),
  foreign key (catalog_id, table_id) references table_identity
) with (fillfactor = 50);

create table table_version (
  catalog_id bigint not null,
  table_id bigint not null,
  begin_snapshot bigint not null,
  end_snapshot bigint check (end_snapshot > begin_snapshot),
  namespace_id bigint not null,
  name text not null,
  primary key (catalog_id, table_id, begin_snapshot),
  foreign key (catalog_id, table_id) references table_identity,
  foreign key (catalog_id, namespace_id) references namespace
);
create unique index table_live_name on table_version (catalog_id, namespace_id, name) where end_snapshot is null;
create unique index table_one_live_name on table_version (catalog_id, table_id) where end_snapshot is null;
create index table_version_by_name on table_version (catalog_id, namespace_id, name, begin_snapshot);

create table table_column (
  catalog_id bigint not null,
  table_id bigint not null,
  field_id bigint not null check (field_id between 1 and 2147483645),
  begin_snapshot bigint not null,
  end_snapshot bigint check (end_snapshot > begin_snapshot),
  name text not null,
  type column_type not null,
  type_params json,
  nullable boolean not null,
  ordinal int not null check (ordinal >= 0),
  primary key (catalog_id, table_id, field_id, begin_snapshot),
  foreign key (catalog_id, table_id) references table_identity
);
create unique index table_column_live_name on table_column (catalog_id, table_id, name) where end_snapshot is null;
create unique index table_column_live_ordinal on table_column (catalog_id, table_id, ordinal) where end_snapshot is null;

create table partition_spec (
  catalog_id bigint not null,
  table_id bigint not null,
  spec_id bigint not null check (spec_id > 0),
  begin_snapshot bigint not null,
  end_snapshot bigint check (end_snapshot > begin_snapshot),
  primary key (catalog_id, table_id, spec_id),
  foreign key (catalog_id, table_id) references table_identity
);
create unique index partition_spec_one_live on partition_spec (catalog_id, table_id) where end_snapshot is null;

create table partition_spec_field (
  catalog_id bigint not null,
  table_id bigint not null,
  spec_id bigint not null,
  key_index int not null check (key_index >= 0),
  source_field_id bigint not null,
  transform partition_transform not null,
  transform_param int check ((transform = 'bucket') = (transform_param is not null) and transform_param >= 1),
  primary key (catalog_id, table_id, spec_id, key_index),
  foreign key (catalog_id, table_id, spec_id) references partition_spec on delete cascade
);

create table sort_spec (
  catalog_id bigint not null,
  table_id bigint not null,
  sort_id bigint not null check (sort_id > 0),
  begin_snapshot bigint not null,
  end_snapshot bigint check (end_snapshot > begin_snapshot),
  primary key (catalog_id, table_id, sort_id),
  foreign key (catalog_id, table_id) references table_identity
);
create unique index sort_spec_one_live on sort_spec (catalog_id, table_id) where end_snapshot is null;

create table sort_spec_field (
  catalog_id bigint not null,
  table_id bigint not null,
  sort_id bigint not null,
  key_index int not null check (key_index >= 0),
  source_field_id bigint not null,
  descending boolean not null,
  nulls_first boolean not null,
  primary key (catalog_id, table_id, sort_id, key_index),
  foreign key (catalog_id, table_id, sort_id) references sort_spec on delete cascade
);

create table view (
  catalog_id bigint not null references catalog,
  view_id bigint not null check (view_id > 0),
  view_uuid uuid not null,
  namespace_id bigint not null,
  name text not null,
  dialect text not null,
  sql text not null,
  begin_snapshot bigint not null,
  end_snapshot bigint check (end_snapshot > begin_snapshot),
  primary key (catalog_id, view_id),
  foreign key (catalog_id, namespace_id) references namespace
);
create unique index view_live_name on view (catalog_id, namespace_id, name) where end_snapshot is null;

create table data_file (
  catalog_id bigint not null,
  data_file_id bigint not null,
  table_id bigint not null,
  begin_snapshot bigint not null,
  end_snapshot bigint check (end_snapshot > begin_snapshot),
  path text not null,
  record_count bigint not null check (record_count between 0 and 281474976710656),
  file_size_bytes bigint not null check (file_size_bytes >= 0),
  footer_size bigint,
  row_id_start bigint not null check (row_id_start >= 0),
  spec_id bigint,
  partition_values text[],
  stats_state stats_state not null,
  explicit_row_ids boolean not null default false,
  missing_field_ids boolean not null default false,
  primary key (catalog_id, data_file_id),
  constraint partition_values_come_with_a_spec check ((spec_id is null) = (partition_values is null))
);
-- scan at head, in plan order
create index data_file_live on data_file (catalog_id, table_id, row_id_start, data_file_id) where end_snapshot is null;
-- changefeed windows and time travel, in listing order
create index data_file_by_begin on data_file (catalog_id, table_id, begin_snapshot, row_id_start, data_file_id);
-- expiry, and the ended part of a scan in the past
create index data_file_ended on data_file (catalog_id, table_id, end_snapshot) where end_snapshot is not null;
create index data_file_pending on data_file (catalog_id, data_file_id) where end_snapshot is null and stats_state = 'pending';
-- how many files of a table could bind columns by name: the guard of rename_column
create index data_file_pending_by_table on data_file (catalog_id, table_id) where end_snapshot is null and stats_state = 'pending';
create index data_file_failed on data_file (catalog_id, data_file_id) where end_snapshot is null and stats_state = 'failed';
create index data_file_idless on data_file (catalog_id, table_id) where end_snapshot is null and missing_field_ids;
-- liveness of a path across all catalogs; 8 bytes of hash instead of 175 of path, rechecked against the path
create index data_file_by_path on data_file (hashtextextended(path, 0));

-- One row a file; the arrays run parallel to field_ids. Absent row: statistics pending or failed.
create table file_statistics (
  catalog_id bigint not null,
  data_file_id bigint not null,
  field_ids int[] not null,
  value_counts bigint[] not null,
  null_counts bigint[] not null,
  nan_counts bigint[] not null,
  sizes_bytes bigint[] not null,
  lower_bounds bytea[] not null,
  upper_bounds bytea[] not null,
  primary key (catalog_id, data_file_id)
);

create table delete_file (
  catalog_id bigint not null,
  delete_file_id bigint not null,
  table_id bigint not null,
  data_file_id bigint not null,
  begin_snapshot bigint not null,
  end_snapshot bigint check (end_snapshot > begin_snapshot),
  path text not null,
  delete_count bigint not null check (delete_count > 0),
  file_size_bytes bigint not null check (file_size_bytes >= 0),
  primary key (catalog_id, delete_file_id)
);
create unique index delete_file_one_live on delete_file (catalog_id, data_file_id) where end_snapshot is null;
create index delete_file_by_data_file on delete_file (catalog_id, data_file_id, begin_snapshot);
create index delete_file_by_begin on delete_file (catalog_id, table_id, begin_snapshot, delete_file_id);
create index delete_file_ended on delete_file (catalog_id, table_id, end_snapshot) where end_snapshot is not null;
create index delete_file_by_path on delete_file (hashtextextended(path, 0));

create table consumer_offset (
  catalog_id bigint not null references catalog,
  consumer_id text not null check (length(consumer_id) between 1 and 128),
  table_uuid uuid not null,
  committed_snapshot bigint not null check (committed_snapshot >= 0),
  updated_at timestamptz not null default clock_timestamp(),
  primary key (catalog_id, consumer_id, table_uuid),
  foreign key (catalog_id, table_uuid) references table_identity (catalog_id, table_uuid)
);
create index consumer_offset_by_snapshot on consumer_offset (catalog_id, committed_snapshot);

-- Paths to delete. A suggestion: liveness is checked when the object is about to go. Settled rows are the ledger.
create table file_removal (
  removal_id bigint generated always as identity primary key,
  catalog_id bigint not null references catalog,
  path text not null,
  kind removal_kind not null,
  reason removal_reason not null,
  scheduled_at timestamptz not null default clock_timestamp(),
  attempts int not null default 0,
  last_attempt_at timestamptz,
  claimed_by uuid,
  claimed_until timestamptz,
  last_error text,
  settled_at timestamptz,
  outcome removal_outcome,
  constraint settled_rows_have_an_outcome check ((settled_at is null) = (outcome is null))
);
-- probed by every commit; not unique, since duplicate paths are legal
create index file_removal_queued_path on file_removal (hashtextextended(path, 0)) where settled_at is null;
create index file_removal_queue on file_removal (catalog_id, last_attempt_at nulls first, removal_id) where settled_at is null;
create index file_removal_settled on file_removal (catalog_id, settled_at) where settled_at is not null;

-- Answers of mutating requests by Idempotency-Key. catalog_id 0 is for requests that name no existing catalog.
create table idempotency_key (
  catalog_id bigint not null,
  key text not null check (length(key) between 1 and 255),
  request_hash bytea not null check (length(request_hash) = 32),
  status smallint not null,
  response json,
  snapshot_id bigint,
  created_at timestamptz not null default clock_timestamp(),
  primary key (catalog_id, key)
);
create index idempotency_key_by_age on idempotency_key (created_at);

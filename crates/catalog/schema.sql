-- Made by tests/it/schema.rs from the migrations; do not edit.

create type change_kind as enum ('namespace_created', 'namespace_dropped', 'table_created', 'table_dropped', 'table_altered', 'table_inserted_into', 'table_deleted_from', 'table_compacted', 'view_created', 'view_dropped');
create type column_type as enum ('boolean', 'int', 'long', 'float', 'double', 'decimal', 'date', 'time', 'timestamp', 'timestamptz', 'string', 'uuid', 'binary');
create type partition_transform as enum ('identity', 'bucket', 'year', 'month', 'day', 'hour');
create type publication_format as enum ('arrow_ipc', 'json');
create type publication_state as enum ('pending', 'active', 'halted');
create type removal_kind as enum ('data', 'delete');
create type removal_outcome as enum ('deleted', 'absent', 'registered');
create type removal_reason as enum ('snapshot_expiry', 'table_drop', 'compaction_staging');
create type stats_state as enum ('provided', 'pending', 'failed');
create type text_range as range (subtype = text, collation = "C");

create table catalog with (fillfactor=10)
  catalog_id bigint not null generated always as identity
  name text not null
  data_path text not null
  data_range text_range not null
  head_snapshot bigint not null default 0
  head_snapshot_time timestamp with time zone not null default clock_timestamp()
  schema_version bigint not null default 0
  next_namespace_id bigint not null default 1
  next_table_id bigint not null default 1
  next_view_id bigint not null default 1
  next_file_id bigint not null default 1
  snapshot_retention_seconds bigint
  consumer_floor boolean not null default true
  earliest_snapshot bigint not null default 0
  earliest_snapshot_time timestamp with time zone
  live_table_count bigint not null default 0
  live_file_count bigint not null default 0
  created_at timestamp with time zone not null default clock_timestamp()
  constraint catalog_data_path_check CHECK ((data_path <> ''::text))
  constraint catalog_data_paths_do_not_overlap EXCLUDE USING gist (data_range WITH &&)
  constraint catalog_head_snapshot_check CHECK ((head_snapshot >= 0))
  constraint catalog_live_file_count_check CHECK ((live_file_count >= 0))
  constraint catalog_live_table_count_check CHECK ((live_table_count >= 0))
  constraint catalog_name_check CHECK ((name ~ '^[a-z][a-z0-9_-]{0,62}$'::text))
  constraint catalog_name_key UNIQUE (name)
  constraint catalog_pkey PRIMARY KEY (catalog_id)
  constraint catalog_schema_version_check CHECK ((schema_version >= 0))
  constraint catalog_snapshot_retention_seconds_check CHECK ((snapshot_retention_seconds > 0))
  constraint expiry_never_passes_head CHECK (((earliest_snapshot >= 0) AND (earliest_snapshot <= head_snapshot)))

create table compaction_claim
  catalog_id bigint not null
  data_file_id bigint not null
  claimed_by uuid not null
  claimed_until timestamp with time zone not null
  constraint compaction_claim_pkey PRIMARY KEY (catalog_id, data_file_id)
  CREATE INDEX compaction_claim_by_holder ON compaction_claim USING btree (claimed_by)

create table compaction_failure
  catalog_id bigint not null
  data_file_id bigint not null
  attempts integer not null
  next_attempt_at timestamp with time zone not null
  reason text not null
  constraint compaction_failure_pkey PRIMARY KEY (catalog_id, data_file_id)

create table consumer_offset
  catalog_id bigint not null
  consumer_id text not null
  table_uuid uuid not null
  committed_snapshot bigint not null
  updated_at timestamp with time zone not null default clock_timestamp()
  constraint consumer_offset_catalog_id_fkey FOREIGN KEY (catalog_id) REFERENCES catalog(catalog_id)
  constraint consumer_offset_catalog_id_table_uuid_fkey FOREIGN KEY (catalog_id, table_uuid) REFERENCES table_identity(catalog_id, table_uuid)
  constraint consumer_offset_committed_snapshot_check CHECK ((committed_snapshot >= 0))
  constraint consumer_offset_consumer_id_check CHECK (((length(consumer_id) >= 1) AND (length(consumer_id) <= 128)))
  constraint consumer_offset_pkey PRIMARY KEY (catalog_id, consumer_id, table_uuid)
  CREATE INDEX consumer_offset_by_snapshot ON consumer_offset USING btree (catalog_id, committed_snapshot)

create table conversion
  conversion_id uuid not null
  is_background boolean not null
  is_private boolean not null
  actor text not null
  request_id text not null
  source text not null
  request json
  state text not null
  server_id uuid
  fence bigint not null default 0
  attempts integer not null default 0
  leased_until timestamp with time zone
  created_at timestamp with time zone not null default clock_timestamp()
  started_at timestamp with time zone
  finished_at timestamp with time zone
  status smallint
  answer json
  constraint background_conversions_say_what_to_do CHECK ((is_background = (request IS NOT NULL)))
  constraint conversion_pkey PRIMARY KEY (conversion_id)
  constraint conversion_states CHECK ((state = ANY (ARRAY['waiting'::text, 'running'::text, 'finished'::text])))
  constraint finished_conversions_have_an_answer CHECK (((state = 'finished'::text) = ((finished_at IS NOT NULL) AND (status IS NOT NULL) AND (answer IS NOT NULL))))
  constraint running_conversions_have_a_server CHECK (((state <> 'running'::text) OR ((server_id IS NOT NULL) AND (leased_until IS NOT NULL))))
  CREATE INDEX conversion_finished ON conversion USING btree (finished_at) WHERE (state = 'finished'::text)
  CREATE INDEX conversion_open ON conversion USING btree (created_at) WHERE (state <> 'finished'::text)

create table conversion_claim
  place bytea not null
  conversion_id uuid not null
  constraint conversion_claim_conversion_id_fkey FOREIGN KEY (conversion_id) REFERENCES conversion(conversion_id) ON DELETE CASCADE
  constraint conversion_claim_pkey PRIMARY KEY (place)
  CREATE INDEX conversion_claim_by_conversion ON conversion_claim USING btree (conversion_id)

create table data_file
  catalog_id bigint not null
  data_file_id bigint not null
  table_id bigint not null
  begin_snapshot bigint not null
  end_snapshot bigint
  path text not null
  record_count bigint not null
  file_size_bytes bigint not null
  footer_size bigint
  row_id_start bigint not null
  spec_id bigint
  partition_values text[]
  stats_state stats_state not null
  explicit_row_ids boolean not null default false
  missing_field_ids boolean not null default false
  constraint data_file_check CHECK ((end_snapshot > begin_snapshot))
  constraint data_file_file_size_bytes_check CHECK ((file_size_bytes >= 0))
  constraint data_file_pkey PRIMARY KEY (catalog_id, data_file_id)
  constraint data_file_record_count_check CHECK (((record_count >= 0) AND (record_count <= '281474976710656'::bigint)))
  constraint data_file_row_id_start_check CHECK ((row_id_start >= 0))
  constraint partition_values_come_with_a_spec CHECK (((spec_id IS NULL) = (partition_values IS NULL)))
  CREATE INDEX data_file_by_begin ON data_file USING btree (catalog_id, table_id, begin_snapshot, row_id_start, data_file_id)
  CREATE INDEX data_file_by_path ON data_file USING btree (hashtextextended(path, (0)::bigint))
  CREATE INDEX data_file_ended ON data_file USING btree (catalog_id, table_id, end_snapshot) WHERE (end_snapshot IS NOT NULL)
  CREATE INDEX data_file_expiring ON data_file USING btree (catalog_id, end_snapshot, data_file_id) WHERE (end_snapshot IS NOT NULL)
  CREATE INDEX data_file_failed ON data_file USING btree (catalog_id, data_file_id) WHERE ((end_snapshot IS NULL) AND (stats_state = 'failed'::stats_state))
  CREATE INDEX data_file_idless ON data_file USING btree (catalog_id, table_id) WHERE ((end_snapshot IS NULL) AND missing_field_ids)
  CREATE INDEX data_file_live ON data_file USING btree (catalog_id, table_id, row_id_start, data_file_id) WHERE (end_snapshot IS NULL)
  CREATE INDEX data_file_pending ON data_file USING btree (catalog_id, data_file_id) WHERE ((end_snapshot IS NULL) AND (stats_state = 'pending'::stats_state))
  CREATE INDEX data_file_pending_by_table ON data_file USING btree (catalog_id, table_id) WHERE ((end_snapshot IS NULL) AND (stats_state = 'pending'::stats_state))

create table delete_file
  catalog_id bigint not null
  delete_file_id bigint not null
  table_id bigint not null
  data_file_id bigint not null
  begin_snapshot bigint not null
  end_snapshot bigint
  path text not null
  delete_count bigint not null
  file_size_bytes bigint not null
  constraint delete_file_check CHECK ((end_snapshot > begin_snapshot))
  constraint delete_file_delete_count_check CHECK ((delete_count > 0))
  constraint delete_file_file_size_bytes_check CHECK ((file_size_bytes >= 0))
  constraint delete_file_pkey PRIMARY KEY (catalog_id, delete_file_id)
  CREATE INDEX delete_file_by_begin ON delete_file USING btree (catalog_id, table_id, begin_snapshot, delete_file_id)
  CREATE INDEX delete_file_by_data_file ON delete_file USING btree (catalog_id, data_file_id, begin_snapshot)
  CREATE INDEX delete_file_by_path ON delete_file USING btree (hashtextextended(path, (0)::bigint))
  CREATE INDEX delete_file_ended ON delete_file USING btree (catalog_id, table_id, end_snapshot) WHERE (end_snapshot IS NOT NULL)
  CREATE INDEX delete_file_expiring ON delete_file USING btree (catalog_id, end_snapshot, delete_file_id) WHERE (end_snapshot IS NOT NULL)
  CREATE INDEX delete_file_live ON delete_file USING btree (catalog_id, table_id, data_file_id) WHERE (end_snapshot IS NULL)
  CREATE UNIQUE INDEX delete_file_one_live ON delete_file USING btree (catalog_id, data_file_id) WHERE (end_snapshot IS NULL)

create table file_removal with (fillfactor=50)
  removal_id bigint not null generated always as identity
  catalog_id bigint not null
  path text not null
  kind removal_kind not null
  reason removal_reason not null
  scheduled_at timestamp with time zone not null default clock_timestamp()
  attempts integer not null default 0
  last_attempt_at timestamp with time zone
  claimed_by uuid
  claimed_until timestamp with time zone
  last_error text
  settled_at timestamp with time zone
  outcome removal_outcome
  constraint file_removal_pkey PRIMARY KEY (removal_id)
  constraint settled_rows_have_an_outcome CHECK (((settled_at IS NULL) = (outcome IS NULL)))
  CREATE INDEX file_removal_by_catalog ON file_removal USING btree (catalog_id, removal_id)
  CREATE INDEX file_removal_queue ON file_removal USING btree (catalog_id, last_attempt_at NULLS FIRST, removal_id) WHERE (settled_at IS NULL)
  CREATE INDEX file_removal_queued_path ON file_removal USING btree (hashtextextended(path, (0)::bigint)) WHERE (COALESCE(settled_at, '-infinity'::timestamp with time zone) = '-infinity'::timestamp with time zone)
  CREATE INDEX file_removal_settled ON file_removal USING btree (catalog_id, settled_at) WHERE (settled_at IS NOT NULL)

create table file_statistics
  catalog_id bigint not null
  data_file_id bigint not null
  field_ids integer[] not null
  value_counts bigint[] not null
  null_counts bigint[] not null
  nan_counts bigint[] not null
  sizes_bytes bigint[] not null
  lower_bounds bytea[] not null
  upper_bounds bytea[] not null
  constraint file_statistics_pkey PRIMARY KEY (catalog_id, data_file_id)

create table hydration
  catalog_id bigint not null
  data_file_id bigint not null
  attempts integer not null default 0
  next_attempt_at timestamp with time zone not null
  claimed_by uuid
  last_error text
  constraint hydration_pkey PRIMARY KEY (catalog_id, data_file_id)

create table idempotency_key
  catalog_id bigint not null
  key text not null
  request_hash bytea not null
  status smallint not null
  response json
  snapshot_id bigint
  created_at timestamp with time zone not null default clock_timestamp()
  claimed_until timestamp with time zone
  constraint idempotency_key_key_check CHECK (((length(key) >= 1) AND (length(key) <= 255)))
  constraint idempotency_key_pkey PRIMARY KEY (catalog_id, key)
  constraint idempotency_key_request_hash_check CHECK ((length(request_hash) = 32))
  CREATE INDEX idempotency_key_by_snapshot ON idempotency_key USING btree (catalog_id, snapshot_id)

create table lease
  catalog_id bigint not null
  task text not null
  holder uuid
  fence bigint not null default 0
  expires_at timestamp with time zone not null default '-infinity'::timestamp with time zone
  constraint lease_catalog_id_fkey FOREIGN KEY (catalog_id) REFERENCES catalog(catalog_id)
  constraint lease_pkey PRIMARY KEY (catalog_id, task)

create table maintenance_run
  run_id bigint not null generated always as identity
  catalog_id bigint not null
  task text not null
  started_at timestamp with time zone not null default clock_timestamp()
  finished_at timestamp with time zone
  result json
  error text
  last_seen_at timestamp with time zone not null default clock_timestamp()
  abandoned boolean not null default false
  constraint finished_runs_say_what_came_out CHECK (((finished_at IS NULL) OR ((result IS NULL) <> (error IS NULL))))
  constraint maintenance_run_catalog_id_fkey FOREIGN KEY (catalog_id) REFERENCES catalog(catalog_id)
  constraint maintenance_run_pkey PRIMARY KEY (run_id)
  CREATE INDEX maintenance_run_by_age ON maintenance_run USING btree (catalog_id, started_at)
  CREATE INDEX maintenance_run_by_catalog ON maintenance_run USING btree (catalog_id, run_id)
  CREATE INDEX maintenance_run_open ON maintenance_run USING btree (catalog_id, last_seen_at) WHERE (finished_at IS NULL)
  CREATE INDEX maintenance_run_verified ON maintenance_run USING btree (finished_at) WHERE ((task = 'verify'::text) AND (result IS NOT NULL))

create table migration
  version integer not null
  name text not null
  checksum bytea not null
  applied_at timestamp with time zone not null default clock_timestamp()
  constraint migration_pkey PRIMARY KEY (version)

create table namespace
  catalog_id bigint not null
  namespace_id bigint not null
  name text not null
  begin_snapshot bigint not null
  end_snapshot bigint
  constraint namespace_catalog_id_fkey FOREIGN KEY (catalog_id) REFERENCES catalog(catalog_id)
  constraint namespace_check CHECK ((end_snapshot > begin_snapshot))
  constraint namespace_namespace_id_check CHECK ((namespace_id > 0))
  constraint namespace_pkey PRIMARY KEY (catalog_id, namespace_id)
  CREATE INDEX namespace_by_name ON namespace USING btree (catalog_id, name, begin_snapshot)
  CREATE UNIQUE INDEX namespace_live_name ON namespace USING btree (catalog_id, name) WHERE (end_snapshot IS NULL)

create table partition_fold
  catalog_id bigint not null
  folded_snapshot bigint not null
  target_bytes bigint not null
  constraint partition_fold_catalog_id_fkey FOREIGN KEY (catalog_id) REFERENCES catalog(catalog_id)
  constraint partition_fold_pkey PRIMARY KEY (catalog_id)

create table partition_spec
  catalog_id bigint not null
  table_id bigint not null
  spec_id bigint not null
  begin_snapshot bigint not null
  end_snapshot bigint
  constraint partition_spec_catalog_id_table_id_fkey FOREIGN KEY (catalog_id, table_id) REFERENCES table_identity(catalog_id, table_id)
  constraint partition_spec_check CHECK ((end_snapshot > begin_snapshot))
  constraint partition_spec_pkey PRIMARY KEY (catalog_id, table_id, spec_id)
  constraint partition_spec_spec_id_check CHECK ((spec_id > 0))
  CREATE INDEX partition_spec_expiring ON partition_spec USING btree (catalog_id, end_snapshot) WHERE (end_snapshot IS NOT NULL)
  CREATE UNIQUE INDEX partition_spec_one_live ON partition_spec USING btree (catalog_id, table_id) WHERE (end_snapshot IS NULL)

create table partition_spec_field
  catalog_id bigint not null
  table_id bigint not null
  spec_id bigint not null
  key_index integer not null
  source_field_id bigint not null
  transform partition_transform not null
  transform_param integer
  constraint partition_spec_field_catalog_id_table_id_spec_id_fkey FOREIGN KEY (catalog_id, table_id, spec_id) REFERENCES partition_spec(catalog_id, table_id, spec_id) ON DELETE CASCADE
  constraint partition_spec_field_check CHECK ((((transform = 'bucket'::partition_transform) = (transform_param IS NOT NULL)) AND (transform_param >= 1)))
  constraint partition_spec_field_key_index_check CHECK ((key_index >= 0))
  constraint partition_spec_field_pkey PRIMARY KEY (catalog_id, table_id, spec_id, key_index)

create table partition_total with (fillfactor=80)
  catalog_id bigint not null
  table_id bigint not null
  spec_id bigint not null
  tuple uuid not null
  partition_values text[]
  file_count bigint not null
  total_bytes bigint not null
  small_file_count bigint not null
  small_file_bytes bigint not null
  dv_count bigint not null
  constraint partition_total_pkey PRIMARY KEY (catalog_id, table_id, spec_id, tuple)
  CREATE INDEX partition_total_by_debt ON partition_total USING btree (catalog_id, small_file_count DESC) WHERE (small_file_count > 0)

create table publication with (fillfactor=50)
  catalog_id bigint not null
  publication_id bigint not null generated always as identity
  name text not null
  table_id bigint not null
  table_uuid uuid not null
  bootstrap_servers text not null
  topic text not null
  format publication_format not null
  tombstones boolean not null default false
  state publication_state not null default 'pending'::publication_state
  last_error text
  created_at timestamp with time zone not null default clock_timestamp()
  holder uuid
  fence bigint not null default 0
  lease_until timestamp with time zone not null default '-infinity'::timestamp with time zone
  constraint publication_bootstrap_servers_check CHECK ((bootstrap_servers <> ''::text))
  constraint publication_catalog_id_fkey FOREIGN KEY (catalog_id) REFERENCES catalog(catalog_id)
  constraint publication_catalog_id_table_id_fkey FOREIGN KEY (catalog_id, table_id) REFERENCES table_identity(catalog_id, table_id)
  constraint publication_halts_say_why CHECK (((state <> 'halted'::publication_state) OR (last_error IS NOT NULL)))
  constraint publication_name UNIQUE (catalog_id, name)
  constraint publication_name_check CHECK ((name ~ '^[A-Za-z_][A-Za-z0-9_-]{0,115}$'::text))
  constraint publication_pkey PRIMARY KEY (catalog_id, publication_id)
  constraint publication_tombstones_are_json CHECK (((NOT tombstones) OR (format = 'json'::publication_format)))
  constraint publication_topic_check CHECK ((topic ~ '^[a-zA-Z0-9._-]{1,249}$'::text))

create table snapshot
  catalog_id bigint not null
  snapshot_id bigint not null
  snapshot_time timestamp with time zone not null
  schema_version bigint not null
  author text
  message text
  constraint snapshot_pkey PRIMARY KEY (catalog_id, snapshot_id)
  constraint snapshot_snapshot_id_check CHECK ((snapshot_id >= 0))
  CREATE INDEX snapshot_by_time ON snapshot USING btree (catalog_id, snapshot_time, snapshot_id)

create table snapshot_change
  catalog_id bigint not null
  snapshot_id bigint not null
  ordinal integer not null
  kind change_kind not null
  object_id bigint not null
  constraint snapshot_change_pkey PRIMARY KEY (catalog_id, snapshot_id, ordinal)
  CREATE INDEX snapshot_change_by_object ON snapshot_change USING btree (catalog_id, object_id, kind, snapshot_id)

create table sort_spec
  catalog_id bigint not null
  table_id bigint not null
  sort_id bigint not null
  begin_snapshot bigint not null
  end_snapshot bigint
  constraint sort_spec_catalog_id_table_id_fkey FOREIGN KEY (catalog_id, table_id) REFERENCES table_identity(catalog_id, table_id)
  constraint sort_spec_check CHECK ((end_snapshot > begin_snapshot))
  constraint sort_spec_pkey PRIMARY KEY (catalog_id, table_id, sort_id)
  constraint sort_spec_sort_id_check CHECK ((sort_id > 0))
  CREATE INDEX sort_spec_expiring ON sort_spec USING btree (catalog_id, end_snapshot) WHERE (end_snapshot IS NOT NULL)
  CREATE UNIQUE INDEX sort_spec_one_live ON sort_spec USING btree (catalog_id, table_id) WHERE (end_snapshot IS NULL)

create table sort_spec_field
  catalog_id bigint not null
  table_id bigint not null
  sort_id bigint not null
  key_index integer not null
  source_field_id bigint not null
  descending boolean not null
  nulls_first boolean not null
  constraint sort_spec_field_catalog_id_table_id_sort_id_fkey FOREIGN KEY (catalog_id, table_id, sort_id) REFERENCES sort_spec(catalog_id, table_id, sort_id) ON DELETE CASCADE
  constraint sort_spec_field_key_index_check CHECK ((key_index >= 0))
  constraint sort_spec_field_pkey PRIMARY KEY (catalog_id, table_id, sort_id, key_index)

create table statistics_version with (fillfactor=50)
  catalog_id bigint not null
  table_id bigint not null
  version bigint not null
  constraint statistics_version_pkey PRIMARY KEY (catalog_id, table_id)

create table table_column
  catalog_id bigint not null
  table_id bigint not null
  field_id bigint not null
  begin_snapshot bigint not null
  end_snapshot bigint
  name text not null
  type column_type not null
  type_params json
  nullable boolean not null
  ordinal integer not null
  constraint table_column_catalog_id_table_id_fkey FOREIGN KEY (catalog_id, table_id) REFERENCES table_identity(catalog_id, table_id)
  constraint table_column_check CHECK ((end_snapshot > begin_snapshot))
  constraint table_column_field_id_check CHECK (((field_id >= 1) AND (field_id <= 2147483645)))
  constraint table_column_ordinal_check CHECK ((ordinal >= 0))
  constraint table_column_pkey PRIMARY KEY (catalog_id, table_id, field_id, begin_snapshot)
  CREATE INDEX table_column_expiring ON table_column USING btree (catalog_id, end_snapshot) WHERE (end_snapshot IS NOT NULL)
  CREATE UNIQUE INDEX table_column_live_name ON table_column USING btree (catalog_id, table_id, name) WHERE (end_snapshot IS NULL)
  CREATE UNIQUE INDEX table_column_live_ordinal ON table_column USING btree (catalog_id, table_id, ordinal) WHERE (end_snapshot IS NULL)

create table table_counter with (fillfactor=50)
  catalog_id bigint not null
  table_id bigint not null
  next_row_id bigint not null default 0
  record_count bigint not null default 0
  file_count bigint not null default 0
  file_size_bytes bigint not null default 0
  constraint table_counter_catalog_id_table_id_fkey FOREIGN KEY (catalog_id, table_id) REFERENCES table_identity(catalog_id, table_id)
  constraint table_counter_file_count_check CHECK ((file_count >= 0))
  constraint table_counter_file_size_bytes_check CHECK ((file_size_bytes >= 0))
  constraint table_counter_next_row_id_check CHECK ((next_row_id >= 0))
  constraint table_counter_pkey PRIMARY KEY (catalog_id, table_id)
  constraint table_counter_record_count_check CHECK ((record_count >= 0))

create table table_identity
  catalog_id bigint not null
  table_id bigint not null
  table_uuid uuid not null
  created_snapshot bigint not null
  dropped_snapshot bigint
  ddl_snapshot bigint not null
  last_namespace text not null
  last_name text not null
  next_field_id bigint not null
  next_spec_id bigint not null default 1
  next_sort_id bigint not null default 1
  purged boolean not null default false
  constraint table_identity_catalog_id_fkey FOREIGN KEY (catalog_id) REFERENCES catalog(catalog_id)
  constraint table_identity_check CHECK ((dropped_snapshot > created_snapshot))
  constraint table_identity_next_field_id_check CHECK (((next_field_id >= 1) AND (next_field_id <= 2147483646)))
  constraint table_identity_pkey PRIMARY KEY (catalog_id, table_id)
  constraint table_identity_table_id_check CHECK ((table_id > 0))
  constraint table_uuid_unique UNIQUE (catalog_id, table_uuid)
  CREATE INDEX table_identity_dropped ON table_identity USING btree (catalog_id, dropped_snapshot) WHERE ((dropped_snapshot IS NOT NULL) AND (NOT purged))

create table table_version
  catalog_id bigint not null
  table_id bigint not null
  begin_snapshot bigint not null
  end_snapshot bigint
  namespace_id bigint not null
  name text not null
  constraint table_version_catalog_id_namespace_id_fkey FOREIGN KEY (catalog_id, namespace_id) REFERENCES namespace(catalog_id, namespace_id)
  constraint table_version_catalog_id_table_id_fkey FOREIGN KEY (catalog_id, table_id) REFERENCES table_identity(catalog_id, table_id)
  constraint table_version_check CHECK ((end_snapshot > begin_snapshot))
  constraint table_version_pkey PRIMARY KEY (catalog_id, table_id, begin_snapshot)
  CREATE UNIQUE INDEX table_live_name ON table_version USING btree (catalog_id, namespace_id, name) WHERE (end_snapshot IS NULL)
  CREATE UNIQUE INDEX table_one_live_name ON table_version USING btree (catalog_id, table_id) WHERE (end_snapshot IS NULL)
  CREATE INDEX table_version_by_name ON table_version USING btree (catalog_id, namespace_id, name, begin_snapshot)
  CREATE INDEX table_version_expiring ON table_version USING btree (catalog_id, end_snapshot) WHERE (end_snapshot IS NOT NULL)

create table view
  catalog_id bigint not null
  view_id bigint not null
  view_uuid uuid not null
  namespace_id bigint not null
  name text not null
  dialect text not null
  sql text not null
  begin_snapshot bigint not null
  end_snapshot bigint
  constraint view_catalog_id_fkey FOREIGN KEY (catalog_id) REFERENCES catalog(catalog_id)
  constraint view_catalog_id_namespace_id_fkey FOREIGN KEY (catalog_id, namespace_id) REFERENCES namespace(catalog_id, namespace_id)
  constraint view_check CHECK ((end_snapshot > begin_snapshot))
  constraint view_pkey PRIMARY KEY (catalog_id, view_id)
  constraint view_view_id_check CHECK ((view_id > 0))
  CREATE INDEX view_expiring ON view USING btree (catalog_id, end_snapshot) WHERE (end_snapshot IS NOT NULL)
  CREATE UNIQUE INDEX view_live_name ON view USING btree (catalog_id, namespace_id, name) WHERE (end_snapshot IS NULL)

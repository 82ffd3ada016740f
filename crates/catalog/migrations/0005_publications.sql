-- Publications: tables whose changes the server produces to Kafka.
--
-- Progress is the offset of the consumer `publication:{name}`, so that expiry respects it like any other. A row is also
-- the lease of whoever publishes: the fence grows with each holder, and what an old holder still tries is refused.

create type publication_format as enum ('arrow_ipc', 'json');
create type publication_state as enum ('pending', 'active', 'halted');

create table publication (
  catalog_id bigint not null references catalog,
  publication_id bigint generated always as identity,
  -- a consumer id has at most 128 characters, `publication:` takes 12
  name text not null check (name ~ '^[A-Za-z_][A-Za-z0-9_-]{0,115}$'),
  table_id bigint not null,
  table_uuid uuid not null,
  bootstrap_servers text not null check (bootstrap_servers <> ''),
  topic text not null check (topic ~ '^[a-zA-Z0-9._-]{1,249}$'),
  format publication_format not null,
  tombstones boolean not null default false,
  state publication_state not null default 'pending',
  last_error text,
  created_at timestamptz not null default clock_timestamp(),
  holder uuid,
  fence bigint not null default 0,
  lease_until timestamptz not null default '-infinity',
  primary key (catalog_id, publication_id),
  constraint publication_name unique (catalog_id, name),
  constraint publication_tombstones_are_json check (not tombstones or format = 'json'),
  constraint publication_halts_say_why check (state <> 'halted' or last_error is not null),
  foreign key (catalog_id, table_id) references table_identity
) with (fillfactor = 50);

-- Conversions between table formats. They belong to no catalog: their tables lie where a path says.

-- A conversion that is going on, or one that a client asked to do in the background and may still ask for. Credentials of
-- a request are never in here: one that brought some (is_private) can be done only by the server that holds them.
create table conversion (
  conversion_id uuid primary key,
  is_background boolean not null,
  is_private boolean not null,
  actor text not null,
  request_id text not null,
  source text not null,
  request json,
  state text not null,
  server_id uuid,
  fence bigint not null default 0,
  attempts int not null default 0,
  leased_until timestamptz,
  created_at timestamptz not null default clock_timestamp(),
  started_at timestamptz,
  finished_at timestamptz,
  status smallint,
  answer json,
  constraint conversion_states check (state in ('waiting', 'running', 'finished')),
  constraint finished_conversions_have_an_answer check ((state = 'finished') = (finished_at is not null and status is not null and answer is not null)),
  constraint running_conversions_have_a_server check (state <> 'running' or (server_id is not null and leased_until is not null)),
  constraint background_conversions_say_what_to_do check (is_background = (request is not null))
);
create index conversion_open on conversion (created_at) where state <> 'finished';
create index conversion_finished on conversion (finished_at) where state = 'finished';

-- One conversion a table at a time. A place is the SHA-256 of its canonical location; source and target both count.
create table conversion_claim (
  place bytea primary key,
  conversion_id uuid not null references conversion on delete cascade
);
create index conversion_claim_by_conversion on conversion_claim (conversion_id);

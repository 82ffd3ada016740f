-- A key is claimed before work that is no single transaction, and answered after it: status 0 until then.
alter table idempotency_key add column claimed_until timestamptz;

-- Nothing reads keys by age alone: they go catalog by catalog, by idempotency_key_by_snapshot.
drop index idempotency_key_by_age;

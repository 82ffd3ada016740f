-- Says why a publication does not get on, for the holder of the lease alone. $1 catalog_id bigint, $2 publication_id
-- bigint, $3 holder uuid, $4 fence bigint, $5 state text: pending, it is tried again; halted, it is not, and the lease
-- ends. $6 last_error text. Primary key.
update publication
set state = $5::publication_state, last_error = $6,
    holder = case when $5 = 'halted' then null else holder end,
    lease_until = case when $5 = 'halted' then '-infinity' else lease_until end
where catalog_id = $1 and publication_id = $2 and holder = $3 and fence = $4

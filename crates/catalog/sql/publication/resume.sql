-- Lets a halted publication go on. $1 catalog_id bigint, $2 name text. Constraint publication_name.
update publication set state = 'pending', last_error = null, holder = null, lease_until = '-infinity'
where catalog_id = $1 and name = $2 and state = 'halted'

-- Gives back what one server holds. $1 holder uuid, $2 publication_id bigint, or null for all of them. Reads the whole
-- table, which has a row a publication.
update publication set holder = null, lease_until = '-infinity'
where holder = $1 and ($2::bigint is null or publication_id = $2)

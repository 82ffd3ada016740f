-- How many paths wait. $1 catalog_id bigint. Index file_removal_queue.
select count(*) from file_removal where catalog_id = $1 and settled_at is null

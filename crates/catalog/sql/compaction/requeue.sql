-- Queues an output whose ticket was taken from us while we wrote it. $1 catalog_id bigint, $2 path text.
insert into file_removal (catalog_id, path, kind, reason) values ($1, $2, 'data', 'compaction_staging')

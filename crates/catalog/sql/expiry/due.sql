-- Whether something lies below the floor. $1 catalog_id bigint, $2 floor bigint. Primary key of snapshot, data_file_expiring,
-- delete_file_expiring. One row.
select exists (select from snapshot where catalog_id = $1 and snapshot_id < $2)
    or exists (select from data_file where catalog_id = $1 and end_snapshot <= $2)
    or exists (select from delete_file where catalog_id = $1 and end_snapshot <= $2)

-- Which of these files are live still. $1 catalog_id bigint, $2 data files bigint[]. Primary key.
select data_file_id from data_file
where catalog_id = $1 and data_file_id = any($2::bigint[]) and end_snapshot is null

-- What a floor would set free. $1 catalog_id bigint, $2 floor bigint. Indexes data_file_expiring, delete_file_expiring,
-- table_identity_dropped, data_file_by_begin, delete_file_by_begin. One row: data files, delete files.
with gone as (
  select table_id from table_identity where catalog_id = $1 and dropped_snapshot <= $2 and not purged
)
select (select count(*) from data_file f
        where f.catalog_id = $1 and f.end_snapshot <= $2 and f.table_id not in (select table_id from gone))
       + (select count(*) from data_file f join gone using (table_id) where f.catalog_id = $1) as data_files,
       (select count(*) from delete_file d
        where d.catalog_id = $1 and d.end_snapshot <= $2 and d.table_id not in (select table_id from gone))
       + (select count(*) from delete_file d join gone using (table_id) where d.catalog_id = $1) as delete_files

-- Adds to each file its column statistics. {files} stands for the statement that lists them.
-- $1 catalog_id. Run by COPY: the numbers are put into the text.
-- Index: the primary key of file_statistics.
select f.*, s.field_ids, s.value_counts, s.null_counts, s.nan_counts, s.sizes_bytes, s.lower_bounds, s.upper_bounds
from ({files}) f
left join file_statistics s on s.catalog_id = $1 and s.data_file_id = f.data_file_id
order by f.row_id_start, f.data_file_id

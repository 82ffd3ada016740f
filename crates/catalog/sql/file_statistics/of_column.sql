-- Counts and bounds of one column in some files. Files without statistics give no row; files whose statistics lack the
-- column give nulls.
-- $1 catalog_id, $2 ids of files, $3 field_id. Run by COPY: the numbers are put into the text.
-- Index: the primary key.
select s.data_file_id, s.value_counts[p.at], s.null_counts[p.at], s.nan_counts[p.at], s.lower_bounds[p.at], s.upper_bounds[p.at]
from file_statistics s
cross join lateral (select array_position(s.field_ids, $3::int) as at) p
where s.catalog_id = $1 and s.data_file_id = any($2)

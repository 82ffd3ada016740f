-- The catalog whose data path meets $1, a canonical data_path. Index catalog_data_paths_do_not_overlap.
select name, data_path from catalog
where data_range && text_range($1 || '/', $1 || '0')
limit 1

-- Which paths some row of some catalog still refers to. $1 paths text[]. Indexes data_file_by_path, delete_file_by_path.
-- A row a referenced path, with the words that say who refers to it.
select w.path, r.referrer
from unnest($1::text[]) as w(path)
cross join lateral (
  (select format('data file %s of table %s in catalog %s', f.data_file_id, f.table_id, f.catalog_id) as referrer
   from data_file f where hashtextextended(f.path, 0) = hashtextextended(w.path, 0) and f.path = w.path limit 1)
  union all
  (select format('deletion vector %s of table %s in catalog %s', d.delete_file_id, d.table_id, d.catalog_id)
   from delete_file d where hashtextextended(d.path, 0) = hashtextextended(w.path, 0) and d.path = w.path limit 1)
  limit 1) r

-- Live files whose footer could not be used, and why. $1 catalog_id bigint, $2 limit bigint. Index data_file_failed.
select f.data_file_id, f.path, h.last_error
from data_file f left join hydration h on h.catalog_id = f.catalog_id and h.data_file_id = f.data_file_id
where f.catalog_id = $1 and f.end_snapshot is null and f.stats_state = 'failed'
order by f.data_file_id limit $2

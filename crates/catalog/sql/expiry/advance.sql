-- Moves the floor, under the commit lock. $1 catalog_id bigint, $2 new floor bigint. Primary keys.
update catalog c
set earliest_snapshot = $2,
    earliest_snapshot_time = (select snapshot_time from snapshot s where s.catalog_id = $1 and s.snapshot_id = $2)
where c.catalog_id = $1 and c.earliest_snapshot < $2

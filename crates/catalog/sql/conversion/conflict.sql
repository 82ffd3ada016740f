-- Who holds one of the places. $1 places bytea[]. Primary key of conversion_claim. At most one row.
select c.conversion_id, c.actor, c.source, c.created_at, c.is_background
from conversion_claim l join conversion c using (conversion_id)
where l.place = any ($1)
order by c.created_at
limit 1

-- Claims places for a conversion. $1 conversion_id uuid, $2 places bytea[]. Fails with 23505 when one is taken.
insert into conversion_claim (place, conversion_id) select distinct place, $1 from unnest($2) place

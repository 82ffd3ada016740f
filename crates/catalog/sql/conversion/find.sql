-- A conversion in the background. $1 conversion_id uuid. Primary key. At most one row.
select state, status, answer::text as answer from conversion where conversion_id = $1 and is_background

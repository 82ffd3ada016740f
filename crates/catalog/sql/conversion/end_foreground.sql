-- Forgets a conversion in the foreground; its places go with it. $1 conversion_id uuid. Primary key.
delete from conversion where conversion_id = $1 and not is_background

-- Begins a read whose rows go to a client. Its statements have no time limit of their own, since how long they take depends
-- on how fast the client reads, and that is limited chunk by chunk. It may also wait for another request that fills the
-- table's scan index.
begin isolation level repeatable read read only;
set local statement_timeout = 0;
set local idle_in_transaction_session_timeout = '10min';

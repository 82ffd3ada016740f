//! DDL in the committer: the same lock and queue, a group of one.

use super::{Committer, Failure, Fault, Interrupted};
use crate::commit::queue::{TakenJob, Work, remaining};
use crate::commit::write::Trace;
use crate::ddl::{CatalogHead, DdlBody, DdlTransaction};
use crate::error::{Error, Result};
use crate::idempotency::{self, Answer, IdempotencyKey};
use crate::lock::begin_locked;
use sqlx::PgConnection;
use tokio::time::Instant;

/// How a DDL attempt ended short of an answer.
enum Broken {
    /// The lock was not had in time; the body has not run.
    Busy,
    /// Refused, or failed: rolled back.
    Failed(Error),
    /// COMMIT was sent and not answered.
    During(Trace, Answer),
}

impl<E: Into<Error>> From<E> for Broken {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

impl Committer {
    pub(super) async fn process_ddl(&mut self, job: TakenJob) {
        let deadline = job.deadline;
        let (work, key, reply) = job.split();
        let Work::Ddl(body) = work else { return };
        let (mut connection, generation) = match self.connect(deadline).await {
            Ok(connection) => connection,
            Err(Failure::Busy) => return reply(Err(super::super::queue::lock_timeout())),
            Err(Failure::Fault(fault)) => return reply(Err(fault.into())),
        };
        match self.ddl(&mut connection, body, key.as_ref(), deadline).await {
            Ok(answer) => {
                self.connection = Some((connection, generation));
                reply(Ok(answer));
            }
            Err(broken) => {
                connection.close_on_drop();
                drop(connection);
                reply(self.after_broken(broken, deadline).await);
            }
        }
    }

    async fn after_broken(&mut self, broken: Broken, deadline: Option<Instant>) -> Result<Answer> {
        match broken {
            Broken::Busy => Err(super::super::queue::lock_timeout()),
            Broken::Failed(error) => Err(error),
            Broken::During(trace, answer) => match self.resolve(&trace, deadline).await {
                Ok(()) => Ok(answer),
                Err(Failure::Busy) => Err(Fault::OutcomeUnknown.into()),
                Err(Failure::Fault(fault)) => Err(fault.into()),
            },
        }
    }

    async fn ddl(
        &mut self,
        connection: &mut PgConnection,
        body: DdlBody,
        key: Option<&IdempotencyKey>,
        deadline: Option<Instant>,
    ) -> Result<Answer, Broken> {
        let mut transaction = match begin_locked(connection, self.catalog, deadline.map(remaining)).await {
            Ok(transaction) => transaction,
            Err(error) => match Interrupted::from(error) {
                Interrupted::Before(Failure::Busy) => return Err(Broken::Busy),
                Interrupted::Before(Failure::Fault(fault)) => return Err(Broken::Failed(fault.into())),
                Interrupted::During(..) => return Err(Broken::Busy),
            },
        };
        if let Some(key) = key
            && let Some(stored) = idempotency::find(&mut transaction, self.catalog, &key.key).await?
        {
            transaction.rollback().await?;
            return Ok(key.replay(stored)?);
        }
        let head: CatalogHead = sqlx::query_as(include_str!("../../../sql/catalog/lock_head.sql"))
            .bind(self.catalog.0)
            .fetch_one(&mut *transaction)
            .await?;
        let snapshot = head.head_snapshot + 1;
        let mut ddl = DdlTransaction::new(&mut transaction, head);
        let answer = match body(&mut ddl).await {
            Ok(answer) => answer,
            Err(refused) => {
                transaction.rollback().await?;
                return Err(refused.into());
            }
        };
        let (transaction_id, time) = ddl.finish().await?;
        if let Some(key) = key
            && let Err(error) = idempotency::insert(&mut transaction, self.catalog, key, &answer).await
        {
            transaction.rollback().await?;
            return Ok(idempotency::first_answer(connection, self.catalog, key, error).await?);
        }
        match transaction.commit().await {
            Ok(()) => Ok(answer),
            Err(error) if error.as_database_error().is_none() => {
                Err(Broken::During(Trace { snapshot, time, transaction: transaction_id }, answer))
            }
            Err(error) => Err(error.into()),
        }
    }
}

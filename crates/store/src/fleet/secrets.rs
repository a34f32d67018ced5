//! Values of secrets: encrypted, apart from their objects, gone with them.

use std::collections::BTreeMap;

use bailiwick_fleet::ports::FleetError;
use bailiwick_resources::{AnyObject, Kind, Metadata, Moment, Object, Secret, SecretKey};
use sqlx::Row as _;

use super::Fleet;
use super::draft::Draft;
use super::key::{Belonging, Sealed, SecretKeeper, path};
use super::values::signed;

impl Fleet {
    pub(super) async fn secret_value(
        &self,
        namespace: &str,
        name: &str,
        key: &str,
    ) -> Result<Option<Vec<u8>>, FleetError> {
        let statement = "SELECT version, key_id, nonce, sealed FROM secret_values \
                         WHERE namespace = $1 AND name = $2 AND key = $3";
        let row = sqlx::query(statement)
            .bind(namespace)
            .bind(name)
            .bind(key)
            .fetch_optional(&self.pool)
            .await
            .map_err(|error| self.failed(&error))?;
        let Some(row) = row else { return Ok(None) };
        let read = || -> Result<(i64, String, Sealed), sqlx::Error> {
            let sealed = Sealed { nonce: row.try_get(2)?, bytes: row.try_get(3)? };
            Ok((row.try_get(0)?, row.try_get(1)?, sealed))
        };
        let (version, id, sealed) = read().map_err(|error| self.failed(&error))?;
        // Only this value is out of reach: the store answers.
        let unopened = |why: String| FleetError::Unopened {
            value: format!("the value `{key}` of secret `{namespace}/{name}`"),
            why: format!("{}: {why}", self.location),
        };
        let keeper = SecretKeeper::read(&path(&self.location)).map_err(unopened)?;
        let keeper = keeper.ok_or_else(|| unopened(self.key_is_missing()))?;
        if keeper.id() != id {
            return Err(unopened(self.key_is_wrong(keeper.id(), &id)));
        }
        let belonging = Belonging { namespace, name, key, version: version.unsigned_abs() };
        let value = keeper.open(belonging, &sealed).ok_or_else(|| {
            unopened(format!("secret `{namespace}/{name}` is not as it was kept; set it anew"))
        })?;
        Ok(Some(value))
    }

    fn key_is_missing(&self) -> String {
        format!(
            "secrets are kept here, but their key, {}, is missing; put the file back, or delete the \
             secrets and set them anew",
            path(&self.location).display()
        )
    }

    fn key_is_wrong(&self, found: &str, wanted: &str) -> String {
        format!(
            "{} is another key ({found}) than the one by which secrets are kept here ({wanted}); put \
             the right file back, or delete the secrets and set them anew",
            path(&self.location).display()
        )
    }
}

impl Draft<'_> {
    pub(super) async fn set_secret(
        &mut self,
        namespace: &str,
        name: &str,
        values: &BTreeMap<String, Vec<u8>>,
        now: Moment,
    ) -> Result<AnyObject, FleetError> {
        let fleet = self.fleet;
        let keeper = self.keeper().await?;
        let kept = self.find(Kind::Secret, namespace, name).await?;
        let mut secret = match &kept {
            Some(kept) => kept.object.typed::<Secret>().map_err(|error| fleet.broken(error))?,
            None => {
                let metadata =
                    Metadata { namespace: namespace.to_owned(), ..Metadata::named(name) };
                Object::new(metadata, Secret::default())
            }
        };
        for (key, value) in values {
            let version = secret.spec.keys.get(key).map_or(1, |known| known.version + 1);
            secret.spec.keys.insert(key.clone(), SecretKey { set_at: now, version });
            let belonging = Belonging { namespace, name, key, version };
            let sealed = keeper.seal(belonging, value).map_err(|why| fleet.broken(why))?;
            self.keep_value(belonging, keeper.id(), sealed).await?;
        }
        let object = AnyObject::of(&secret).map_err(|error| fleet.broken(error))?;
        match kept {
            None => self.create(object, now).await,
            Some(kept) => {
                let mut next = kept.object.clone();
                if next.spec != object.spec {
                    next.metadata.generation += 1;
                }
                next.spec = object.spec;
                self.change(kept, next).await
            }
        }
    }

    /// The key; made if there are no values yet. Writers are alone, so nobody else makes one now.
    async fn keeper(&mut self) -> Result<SecretKeeper, FleetError> {
        let fleet = self.fleet;
        let found = "SELECT key_id FROM secret_values ORDER BY key_id LIMIT 1";
        let row = sqlx::query(found).fetch_optional(self.connection()).await;
        let kept: Option<String> = row
            .and_then(|row| row.map(|row| row.try_get(0)).transpose())
            .map_err(|error| fleet.failed(&error))?;
        let path = path(&fleet.location);
        let keeper = SecretKeeper::read(&path).map_err(|why| fleet.broken(why))?;
        match (kept, keeper) {
            (Some(_), None) => Err(fleet.broken(fleet.key_is_missing())),
            (Some(id), Some(keeper)) if id != keeper.id() => {
                Err(fleet.broken(fleet.key_is_wrong(keeper.id(), &id)))
            }
            (_, Some(keeper)) => Ok(keeper),
            (None, None) => SecretKeeper::make(&path).map_err(|why| fleet.broken(why)),
        }
    }

    async fn keep_value(
        &mut self,
        of: Belonging<'_>,
        key_id: &str,
        sealed: Sealed,
    ) -> Result<(), FleetError> {
        let fleet = self.fleet;
        sqlx::query(
            "INSERT INTO secret_values (namespace, name, key, version, key_id, nonce, sealed) \
             VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (namespace, name, key) DO UPDATE SET \
             version = excluded.version, key_id = excluded.key_id, nonce = excluded.nonce, \
             sealed = excluded.sealed",
        )
        .bind(of.namespace)
        .bind(of.name)
        .bind(of.key)
        .bind(signed(of.version))
        .bind(key_id)
        .bind(sealed.nonce)
        .bind(sealed.bytes)
        .execute(self.connection())
        .await
        .map_err(|error| fleet.failed(&error))?;
        Ok(())
    }

    /// Drops the values that an object does not name any more.
    pub(super) async fn drop_values(&mut self, object: &AnyObject) -> Result<(), FleetError> {
        let fleet = self.fleet;
        let (namespace, name) = (&object.metadata.namespace, &object.metadata.name);
        let statement = "SELECT key FROM secret_values WHERE namespace = $1 AND name = $2";
        let rows =
            sqlx::query(statement).bind(namespace).bind(name).fetch_all(self.connection()).await;
        for row in rows.map_err(|error| fleet.failed(&error))? {
            let key: String = row.try_get(0).map_err(|error| fleet.failed(&error))?;
            let named = object.spec.get("keys").and_then(|keys| keys.get(&key)).is_some();
            if !named {
                let statement =
                    "DELETE FROM secret_values WHERE namespace = $1 AND name = $2 AND key = $3";
                let done = sqlx::query(statement).bind(namespace).bind(name).bind(key);
                let done = done.execute(self.connection()).await;
                done.map_err(|error| fleet.failed(&error))?;
            }
        }
        Ok(())
    }

    /// Drops all values of a secret.
    pub(super) async fn drop_all_values(
        &mut self,
        namespace: &str,
        name: &str,
    ) -> Result<(), FleetError> {
        let fleet = self.fleet;
        let statement = "DELETE FROM secret_values WHERE namespace = $1 AND name = $2";
        let done = sqlx::query(statement).bind(namespace).bind(name).execute(self.connection());
        done.await.map_err(|error| fleet.failed(&error))?;
        Ok(())
    }
}

//! Values of secrets: encrypted, stored apart from their objects and deleted with them.

use std::collections::BTreeMap;

use bailiwick_fleet::ports::FleetError;
use bailiwick_resources::{AnyObject, Kind, Metadata, Moment, Object, Secret, SecretKey};
use sqlx::Row as _;

use super::Fleet;
use super::key::{AssociatedData, EncryptedValue, EncryptionKey, path};
use super::statements::signed;
use super::transaction::WriteTransaction;

impl Fleet {
    pub(crate) async fn secret_value(
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
            .map_err(|error| self.database_error(&error))?;
        let Some(row) = row else { return Ok(None) };
        let read = || -> Result<(i64, String, EncryptedValue), sqlx::Error> {
            let encrypted = EncryptedValue { nonce: row.try_get(2)?, bytes: row.try_get(3)? };
            Ok((row.try_get(0)?, row.try_get(1)?, encrypted))
        };
        let (version, id, encrypted) = read().map_err(|error| self.database_error(&error))?;
        // Only this value is unavailable, not the store.
        let unopened = |why: String| FleetError::Undecryptable {
            value: format!("the value `{key}` of secret `{namespace}/{name}`"),
            why: format!("{}: {why}", self.location),
        };
        let found = EncryptionKey::read(&path(&self.location));
        let found = found.map_err(|error| unopened(error.to_string()))?;
        let key_of_secrets = found.ok_or_else(|| unopened(self.missing_key()))?;
        if key_of_secrets.id() != id {
            return Err(unopened(self.wrong_key(key_of_secrets.id(), &id)));
        }
        let identity = AssociatedData { namespace, name, key, version: version.unsigned_abs() };
        let value = key_of_secrets.decrypt(identity, &encrypted).ok_or_else(|| {
            unopened(format!(
                "secret `{namespace}/{name}` was changed in the database; set it again"
            ))
        })?;
        Ok(Some(value))
    }

    fn missing_key(&self) -> String {
        format!(
            "the key of the secrets, {}, is missing; restore the file, or delete the secrets and set them again",
            path(&self.location).display()
        )
    }

    fn wrong_key(&self, found: &str, wanted: &str) -> String {
        format!(
            "{} is not the key ({found}) that the secrets were encrypted with ({wanted}); restore the right \
             file, or delete the secrets and set them again",
            path(&self.location).display()
        )
    }
}

impl WriteTransaction<'_> {
    pub(super) async fn set_secret(
        &mut self,
        namespace: &str,
        name: &str,
        values: &BTreeMap<String, Vec<u8>>,
        now: Moment,
    ) -> Result<AnyObject, FleetError> {
        let fleet = self.fleet;
        let key_of_secrets = self.encryption_key().await?;
        let stored = self.find(Kind::Secret, namespace, name).await?;
        let mut secret = match &stored {
            Some(stored) => {
                stored.object.typed::<Secret>().map_err(|error| fleet.unavailable(error))?
            }
            None => {
                let metadata =
                    Metadata { namespace: namespace.to_owned(), ..Metadata::named(name) };
                Object::new(metadata, Secret::default())
            }
        };
        for (key, value) in values {
            let version = secret.spec.keys.get(key).map_or(1, |known| known.version + 1);
            secret.spec.keys.insert(key.clone(), SecretKey { set_at: now, version });
            let identity = AssociatedData { namespace, name, key, version };
            let encrypted = key_of_secrets.encrypt(identity, value);
            let encrypted = encrypted.map_err(|error| fleet.unavailable(error))?;
            self.store_value(identity, key_of_secrets.id(), encrypted).await?;
        }
        let object = AnyObject::of(&secret).map_err(|error| fleet.unavailable(error))?;
        match stored {
            None => self.create(object, now).await,
            Some(stored) => {
                let mut next = stored.object.clone();
                if next.spec != object.spec {
                    next.metadata.generation += 1;
                }
                next.spec = object.spec;
                self.update(stored, next).await
            }
        }
    }

    /// The key; created if there are no values yet. There is one writer, so nobody else creates one now.
    pub(super) async fn encryption_key(&mut self) -> Result<EncryptionKey, FleetError> {
        let fleet = self.fleet;
        let found = "SELECT key_id FROM secret_values ORDER BY key_id LIMIT 1";
        let row = sqlx::query(found).fetch_optional(self.connection()).await;
        let stored_id: Option<String> = row
            .and_then(|row| row.map(|row| row.try_get(0)).transpose())
            .map_err(|error| fleet.database_error(&error))?;
        let path = path(&fleet.location);
        let found = EncryptionKey::read(&path).map_err(|error| fleet.unavailable(error))?;
        match (stored_id, found) {
            (Some(_), None) => Err(fleet.unavailable(fleet.missing_key())),
            (Some(id), Some(found)) if id != found.id() => {
                Err(fleet.unavailable(fleet.wrong_key(found.id(), &id)))
            }
            (_, Some(found)) => Ok(found),
            (None, None) => EncryptionKey::create(&path).map_err(|error| fleet.unavailable(error)),
        }
    }

    async fn store_value(
        &mut self,
        identity: AssociatedData<'_>,
        key_id: &str,
        encrypted: EncryptedValue,
    ) -> Result<(), FleetError> {
        let fleet = self.fleet;
        sqlx::query(
            "INSERT INTO secret_values (namespace, name, key, version, key_id, nonce, sealed) \
             VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (namespace, name, key) DO UPDATE SET \
             version = excluded.version, key_id = excluded.key_id, nonce = excluded.nonce, \
             sealed = excluded.sealed",
        )
        .bind(identity.namespace)
        .bind(identity.name)
        .bind(identity.key)
        .bind(signed(identity.version))
        .bind(key_id)
        .bind(encrypted.nonce)
        .bind(encrypted.bytes)
        .execute(self.connection())
        .await
        .map_err(|error| fleet.database_error(&error))?;
        Ok(())
    }

    /// Deletes the values that an object no longer names.
    pub(super) async fn delete_unnamed_values(
        &mut self,
        object: &AnyObject,
    ) -> Result<(), FleetError> {
        let fleet = self.fleet;
        let (namespace, name) = (&object.metadata.namespace, &object.metadata.name);
        let statement = "SELECT key FROM secret_values WHERE namespace = $1 AND name = $2";
        let rows =
            sqlx::query(statement).bind(namespace).bind(name).fetch_all(self.connection()).await;
        for row in rows.map_err(|error| fleet.database_error(&error))? {
            let key: String = row.try_get(0).map_err(|error| fleet.database_error(&error))?;
            let named = object.spec.get("keys").and_then(|keys| keys.get(&key)).is_some();
            if !named {
                let statement =
                    "DELETE FROM secret_values WHERE namespace = $1 AND name = $2 AND key = $3";
                let done = sqlx::query(statement).bind(namespace).bind(name).bind(key);
                let done = done.execute(self.connection()).await;
                done.map_err(|error| fleet.database_error(&error))?;
            }
        }
        Ok(())
    }

    pub(super) async fn delete_all_values(
        &mut self,
        namespace: &str,
        name: &str,
    ) -> Result<(), FleetError> {
        let fleet = self.fleet;
        let statement = "DELETE FROM secret_values WHERE namespace = $1 AND name = $2";
        let done = sqlx::query(statement).bind(namespace).bind(name).execute(self.connection());
        done.await.map_err(|error| fleet.database_error(&error))?;
        Ok(())
    }
}

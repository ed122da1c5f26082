import { z } from 'zod';
import type { CredentialKeys } from '../workflow-platform.ts';

const text = z
  .string()
  .nullish()
  .transform(value => value || undefined);

const git = z.enum(['github', 'gitlab', 'bitbucket', 'gitea']);

const documentSchema = z.object({
  discriminator: text,
  userName: text,
  username: text,
  password: text,
  token: text,
  registry: text,
  accessKey: text,
  secretKey: text,
  assumeRoleArn: text,
  externalId: text,
  data: text,
  clientId: text,
  clientSecret: text,
});

/**
 * Returns the keys in a decrypted response to `GET /credentials/{id}/keys`; undefined when it contains none. Unknown
 * members are left out, and keys of an unknown kind are `other`.
 */
export function readKeys(document: unknown): CredentialKeys | undefined {
  const parsed = documentSchema.safeParse(document);
  if (!parsed.success) return undefined;
  const { discriminator = 'none', accessKey, secretKey, assumeRoleArn, externalId } = parsed.data;
  const { registry, data, clientId, clientSecret } = parsed.data;
  const username = parsed.data.userName ?? parsed.data.username ?? '';
  const password = parsed.data.token ?? parsed.data.password ?? '';
  const kind = git.safeParse(discriminator);
  if (kind.success) return { kind: kind.data, username, password };
  if (discriminator === 'container-reg')
    return { kind: 'container-reg', username, password, registry };
  if (discriminator === 'aws')
    return { kind: 'aws', accessKey, secretKey, assumeRoleArn, externalId };
  if (discriminator === 'google' && data) return { kind: 'google', data };
  if (discriminator.startsWith('azure') && clientId && clientSecret) {
    return { kind: 'azure', clientId, clientSecret };
  }
  return { kind: 'other', discriminator };
}

/** Returns the keys in clear, as a platform writes them into its response. */
export function keysDocument(keys: CredentialKeys): Readonly<Record<string, string | undefined>> {
  const { kind, ...members } = keys;
  if ('username' in members) {
    const { username: userName, ...others } = members;
    return { discriminator: kind, userName, ...others };
  }
  return 'discriminator' in members ? members : { discriminator: kind, ...members };
}

import { z } from 'zod';
import { tokenScopes } from '../token-rights.ts';
import type { CredentialEntry, PlatformUser } from '../workflow-platform.ts';

const text = z
  .string()
  .nullish()
  .transform(value => value || undefined);
const id = z.union([z.string().min(1), z.number()]).transform(String);

// A scope that this version does not know gives no right here.
const tokenRights = z
  .object({ scopes: z.array(z.string()), repositories: z.array(z.string()).optional() })
  .transform(({ scopes, repositories }) => ({
    scopes: tokenScopes.filter(scope => scopes.includes(scope)),
    repositories,
  }))
  .optional();

/** Response to `GET /user-info`. */
export const userReply = z
  .object({ user: z.object({ id, userName: text, email: text }), tokenRights })
  .transform(
    ({ user, tokenRights: rights }): PlatformUser => ({
      ...user,
      userName: user.userName ?? user.id,
      ...(rights ? { tokenRights: rights } : {}),
    }),
  );

const entry = z
  .object({
    id,
    name: text,
    provider: text,
    description: text,
    registry: text,
    keys: z.object({ registry: text }).nullish(),
  })
  .transform(
    ({ keys, name, provider, ...others }): CredentialEntry => ({
      ...others,
      name: name ?? others.id,
      provider: provider ?? 'other',
      registry: others.registry ?? keys?.registry,
    }),
  );

/** Response to `GET /credentials`: one page and, where the platform reports it, the number of entries on all pages. */
export const credentialsReply = z.object({
  credentials: z.array(entry),
  totalSize: z.number().nullish(),
});

/** Response to `GET /credentials/{id}/keys`: a packet, or the keys themselves. */
export const keysReply = z.object({
  keys: z.union([z.string(), z.record(z.string(), z.unknown())]),
});

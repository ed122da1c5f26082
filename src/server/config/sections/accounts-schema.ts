import { z } from 'zod';
import { administratorRoles } from '../../../hosted/accounts/index.ts';
import { passwordForm } from '../../../hosted/accounts/password-hash.ts';
import { splitList } from '../units.ts';

const password = z.string().min(1, 'expected a password');
const repositories = z.record(z.string().min(1), z.enum(['pull', 'push', 'administer']));
const roles = z.array(
  z.enum(administratorRoles, `expected one of the roles ${administratorRoles.join(', ')}`),
);

const account = z
  .union(
    [
      password.transform(word => ({ password: word, repositories: undefined })),
      z
        .strictObject({ password, repositories: repositories.optional(), roles: roles.optional() })
        .refine(
          ({ repositories: own, roles: given }) => own !== undefined || given !== undefined,
          'expected repositories, roles or both beside the password; for an administrator with all roles, only the password',
        ),
    ],
    'expected a password, or {password, repositories, roles}: repositories with pull, push or administer, and what the account administers',
  )
  .superRefine(({ password: text }, context) => {
    try {
      passwordForm(text);
    } catch (error) {
      context.addIssue((error as Error).message);
    }
  });

// The parameters of an argon2id hash also contain commas: m=19456,t=2,p=1.
const parameterComma = /(\$m=\d+),(t=\d+),(p=\d+\$)/g;

/** `name:password,...` in the environment, a map in the file. */
export const accounts = z.preprocess(
  value =>
    typeof value === 'string'
      ? Object.fromEntries(
          splitList(value.replace(parameterComma, '$1\0$2\0$3')).map(part => {
            const entry = part.replaceAll('\0', ',');
            const colon = entry.indexOf(':');
            return [entry.slice(0, Math.max(colon, 0)), entry.slice(colon + 1)];
          }),
        )
      : value,
  z.record(
    z
      .string()
      .min(1, 'expected name:password')
      .regex(/^[^:]+$/, 'a name must not contain a colon')
      .refine(name => name !== 'token', 'this name is reserved for bearer tokens'),
    account,
    'expected a map of names to passwords',
  ),
);

/** `htpasswd` files with more accounts. Their rights are set here: no line of a file makes an administrator. */
export const accountFiles = z.array(
  z.strictObject({
    file: z
      .string()
      .min(1)
      .describe(
        'File with a line `name:hash` for each account, as `htpasswd -B` writes it: bcrypt or argon2id hashes. It is read again within seconds after a change. While a changed file is invalid, the log has an error and the previous accounts stay',
      ),
    repositories: repositories
      .default({})
      .describe(
        'Rights of its accounts, such as `{"team/*": push}`: pull, push or administer. Default: the rights of everybody',
      ),
    administrators: z
      .union(
        [z.array(z.string().min(1)), z.record(z.string().min(1), roles)],
        'expected a list of names, or a map of names to their roles',
      )
      .default([])
      .describe(
        'Names in the file that are administrators: a list of names that may do everything, or a map of names to their roles, such as `{"ada": [site, audit]}`. Roles are `site`, `tokens`, `credentials`, `audit` and `registries`',
      ),
  }),
);

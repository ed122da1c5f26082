import { z } from 'zod';
import { passwordForm } from '../../../hosted/accounts/password-hash.ts';
import { splitList } from '../units.ts';

const password = z.string().min(1, 'expected a password');
const repositories = z.record(z.string().min(1), z.enum(['pull', 'push', 'administer']));

const account = z
  .union(
    [
      password.transform(word => ({ password: word, repositories: undefined })),
      z.strictObject({ password, repositories }),
    ],
    'expected a password, or {password, repositories} with the roles pull, push or administer',
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
      .array(z.string().min(1))
      .default([])
      .describe('Names in the file that are administrators'),
  }),
);

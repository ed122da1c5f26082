import { z } from 'zod';
import { administratorRoles } from '../../../hosted/accounts/index.ts';
import { passwordForm } from '../../../hosted/accounts/password-hash.ts';
import { count, countLimit, duration, limit, splitList, timer, withWords } from '../units.ts';

const openness = withWords(
  z.enum(['open', 'login', 'off'], 'expected open, login or off'),
).optional();

/** Who may use the server. */
export const access = z.strictObject({
  requests: openness.describe(
    'Who may make container requests, inspect images and check credentials: everybody (`open`), callers with a platform access token or an account (`login`), nobody (`off`). Default: `open`',
  ),
  builds: openness.describe(
    'Who may have images built, frozen or converted: `open`, `login` or `off`. Default: `open` where `listen`, `tls.listen` and `url` are loopback addresses and `trustedProxies` is 0, or with `local`; otherwise `login`',
  ),
  pulls: openness.describe(
    'Who may pull served names: everybody who has the name (`open`), clients that have also logged in (`login`), nobody (`off`). With `off`, only container requests for frozen images are accepted. Default: `open`',
  ),
});

/** What the audit log records, and how long it is kept. */
export const audit = z.strictObject({
  keep: duration
    .prefault('90d')
    .describe('How long entries of the audit log (`sluice audit`) are kept'),
  maxEntries: count
    .min(1)
    .default(1_000_000)
    .describe(
      'Maximum number of entries of the audit log about changes, of that about pulls, and of that about builds. The oldest entries are removed first',
    ),
  pulls: withWords(z.enum(['on', 'off']))
    .default('off')
    .describe(
      'Record who pulls which image (`sluice audit --of pulls`): each manifest that is sent, once in 30 seconds for the same caller. Entries of a second are written together: a power failure loses them',
    ),
  builds: withWords(z.enum(['on', 'off']))
    .default('off')
    .describe('Record who starts which build (`sluice audit --of builds`), in the same way'),
});

/** Limits for the state of callers without a login. */
export const anonymous = z.strictObject({
  maxRequests: countLimit
    .prefault(2_000_000)
    .describe('Maximum number of container requests that are kept for all callers without a login'),
  maxFiles: countLimit
    .prefault(2_000_000)
    .describe(
      'Maximum number of files that are kept for these callers: layers, build contexts, manifests and configs',
    ),
  maxBytes: limit
    .prefault('100 GiB')
    .describe('Maximum size of the files and requests that are kept for these callers'),
  maxNetworkRequests: countLimit
    .prefault(200_000)
    .describe(
      'Maximum number of container requests that are kept for one network without a login. A network is an IPv4 address or an IPv6 /64',
    ),
  maxNetworkFiles: countLimit
    .prefault(200_000)
    .describe('Maximum number of files that are kept for one network'),
  maxNetworkBytes: limit
    .prefault('10 GiB')
    .describe('Maximum size of the files and requests that are kept for one network'),
  maxBuildBytes: limit
    .prefault('100 GiB')
    .describe(
      'Size of the hosted repository for builds, and of each one for frozen images, above which only callers with a login can start builds in it',
    ),
});

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

/** Settings of served names. */
export const tokens = z.strictObject({
  maxLife: duration
    .prefault('7d')
    .describe(
      'Maximum lifetime of a served image name, however often it is extended, and however long the run is that it ends with. At least `tokenLife`',
    ),
  runLease: timer
    .prefault('1h')
    .describe(
      'How long a name with `workflowId` outlives the last time that its platform reported the run as active. Sluice asks every three minutes, or four times in this time',
    ),
  onlyFrozen: withWords(z.enum(['off', 'refuse', 'freeze']))
    .default('off')
    .describe(
      'Requests for names that expire: `off` serves them, `refuse` refuses requests without `freeze`, `freeze` freezes their images, by default in the repository that `defaultRepository: true` means',
    ),
});

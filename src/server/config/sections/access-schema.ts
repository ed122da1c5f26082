import { z } from 'zod';
import { duration, withWords } from '../units.ts';
import { count } from '../values.ts';

const openness = withWords(
  z.enum(['open', 'login', 'off'], 'expected open, login or off'),
).optional();

/** Who may use the server. */
export const access = z.strictObject({
  requests: openness.describe(
    'Who may make container requests, inspect images and check credentials: everybody (`open`), callers with a platform access token or an account (`login`), nobody (`off`). Default: `open`',
  ),
  builds: openness.describe(
    'Who may have images built, frozen or converted: `open`, `login` or `off`. Default: `open` where `listen`, `tls.listen` and `url` are loopback addresses and `trustedProxies` is 0, otherwise `login`',
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

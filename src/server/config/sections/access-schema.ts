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

/** How long the audit log is kept. */
export const audit = z.strictObject({
  keep: duration
    .prefault('90d')
    .describe('How long entries of the audit log (`sluice audit`) are kept'),
  maxEntries: count
    .min(1)
    .default(1_000_000)
    .describe('Maximum number of entries of the audit log. The oldest entries are removed first'),
});

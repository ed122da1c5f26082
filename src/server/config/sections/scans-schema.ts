import { z } from 'zod';
import { severities } from '../../../scans/vulnerability.ts';
import { count, duration, flag, list, size, timer, withWords } from '../units.ts';

/** Scans of images for known vulnerabilities. */
export const scans = z.strictObject({
  adapter: z
    .url({ protocol: /^https?$/, error: 'expected an http(s) URL' })
    .refine(
      text => !/^https?:\/\/[^/]*@/.test(text),
      'expected a URL without a password: write it as scans.authorization',
    )
    .optional()
    .describe(
      "Base URL of a scanner: an adapter of Harbor's Pluggable Scanner API 1.x, such as harbor-scanner-trivy. Default: none, and no scans",
    ),
  program: z
    .string()
    .refine(
      text => /^(?:trivy|grype|\/(?:[^/]{1,255}\/){0,30}(?:trivy|grype)[^/]{0,200})$/.test(text),
      'expected trivy, grype, or the absolute path of one of them',
    )
    .optional()
    .describe(
      'A scanner on the machine of the server, in place of an adapter: `trivy` or `grype`, searched on the PATH, or the absolute path of one of them',
    ),
  database: z
    .string()
    .startsWith('/', 'expected an absolute path')
    .optional()
    .describe(
      "Folder with the program's database of vulnerabilities: the cache of Trivy, or `GRYPE_DB_CACHE_DIR`. Default: `SLUICE_DATA/scans/trivy` or `SLUICE_DATA/scans/grype`",
    ),
  updateDatabase: flag
    .default(false)
    .describe(
      'Let the program download its database before a scan. It can then connect to other hosts. Otherwise the operator keeps the folder up to date',
    ),
  memory: size
    .prefault('2 GiB')
    .describe('Maximum memory of the program for one image. It is ended when it takes more'),
  authorization: z
    .string()
    .regex(/^[\x20-\x7e]+$/, 'expected the value of a header')
    .optional()
    .describe('Value of the header `Authorization` for the adapter, such as `Bearer <token>`')
    .meta({ secret: true }),
  ca: z
    .string()
    .optional()
    .describe(
      'PEM file of a certificate authority of the adapter, in addition to the public authorities. For a program: of the address of this server',
    ),
  allowPrivateAddress: flag
    .default(false)
    .describe('Allow the adapter to be at a loopback, private or link-local address'),
  required: withWords(z.enum(['off', 'anonymous', 'all']))
    .default('off')
    .describe(
      'Whose images are served only after a scan that found nothing outside of `levels`, whatever their requests say. `anonymous`: those of callers without a login. `all`: those of all callers. Frozen images and copies are refused for them',
    ),
  levels: list
    .pipe(z.array(z.enum(severities, `expected some of ${severities.join(', ')}`)))
    .prefault([])
    .describe(
      'Severities that scans may find where `required` is set. `scanLevels` of a request can only take some away. Default: none',
    ),
  timeout: timer.prefault('15m').describe('Timeout for the scan of one image'),
  concurrent: count.min(1).max(100).default(2).describe('Maximum number of scans at once'),
  maxWaiting: count
    .min(1)
    .max(10_000)
    .default(200)
    .describe('Maximum number of scans that run or wait. Others fail at once'),
  maxAge: duration
    .prefault('1d')
    .describe(
      'How long a result is used for other requests of the same image, while scanner and database are the same',
    ),
  keep: duration
    .prefault('7d')
    .describe('How long scans are kept; at least as long as the names of images live'),
});

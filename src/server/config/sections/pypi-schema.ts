import { z } from 'zod';
import { flag, list } from '../units.ts';

const baseUrl = z
  .string()
  .refine(
    text => /^https?:\/\//.test(text) && URL.canParse(text),
    'expected the http(s) base URL of an index of Python packages',
  );

/** A key is shown in messages, so it holds no secret. */
const indexUrl = baseUrl.refine(
  text => !/^https?:\/\/[^/]*@/.test(text),
  'expected a base URL without credentials: write them as username and password, or token',
);

const index = z.strictObject({
  url: baseUrl
    .optional()
    .describe('Base URL of the index. Default: the URL that the entry is listed by'),
  mirrors: list
    .pipe(z.array(baseUrl))
    .default([])
    .describe(
      'Base URLs to try first, in order. A mirror on another host gets the credentials of the entry that lists its URL',
    ),
  username: z.string().optional().describe('User name for this index (HTTP basic)'),
  password: z.string().optional().describe('Password for this index').meta({ secret: true }),
  token: z
    .string()
    .min(1)
    .optional()
    .describe('Token for this index, sent as a bearer token')
    .meta({ secret: true }),
  ca: z
    .string()
    .optional()
    .describe(
      'PEM file of a certificate authority of this index, in addition to the public authorities',
    ),
  allowPrivateAddress: flag
    .default(false)
    .describe('Allow the index to be at a loopback, private or link-local address'),
});

/** Settings of indexes of Python packages by their base URLs. */
export const pypi = z.record(indexUrl, index);

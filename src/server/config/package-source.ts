import { z } from 'zod';
import { flag, list } from './units.ts';

/** Returns the base URL of what has packages: `a channel`. */
export function packageUrl(what: string) {
  return z
    .string()
    .refine(
      text => /^https?:\/\//.test(text) && URL.canParse(text),
      `expected the http(s) base URL of ${what}`,
    );
}

/** Returns the settings of how a channel or an index is reached. */
export function accessFields(
  what: 'channel' | 'index',
  baseUrl: ReturnType<typeof packageUrl>,
  aboutToken: string,
) {
  return {
    mirrors: list
      .pipe(z.array(baseUrl))
      .default([])
      .describe(
        'Base URLs to try first, in order. A mirror on another host gets the credentials of the entry that lists its URL',
      ),
    username: z.string().optional().describe(`User name for this ${what} (HTTP basic)`),
    password: z.string().optional().describe(`Password for this ${what}`).meta({ secret: true }),
    token: z.string().min(1).optional().describe(aboutToken).meta({ secret: true }),
    ca: z
      .string()
      .optional()
      .describe(
        `PEM file of a certificate authority of this ${what}, in addition to the public authorities`,
      ),
    allowPrivateAddress: flag
      .default(false)
      .describe(`Allow the ${what} to be at a loopback, private or link-local address`),
  };
}

import { z } from 'zod';
import { list } from '../units.ts';

const origin = z
  .string()
  .refine(
    text => text === '*' || (/^https?:/.test(text) && URL.parse(text)?.origin === text),
    'expected an origin such as https://portal.example.org, without a path, or *',
  );

/** Access for web pages of other origins. */
export const cors = z.strictObject({
  origins: list
    .pipe(z.array(origin))
    .default([])
    .describe(
      'Origins whose pages may use this server from a browser (CORS), such as `https://portal.example.org`. `*` allows every page, even if only the user of the browser can reach the server',
    ),
});

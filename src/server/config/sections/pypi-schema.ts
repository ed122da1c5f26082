import { z } from 'zod';
import { accessFields, packageUrl } from '../package-source.ts';

const baseUrl = packageUrl('an index of Python packages');

/** A key is shown in messages, so it holds no secret. */
const indexUrl = baseUrl.refine(
  text => !/^https?:\/\/[^/]*@/.test(text),
  'expected a base URL without credentials: write them as username and password, or token',
);

const index = z.strictObject({
  url: baseUrl
    .optional()
    .describe('Base URL of the index. Default: the URL that the entry is listed by'),
  ...accessFields('index', baseUrl, 'Token for this index, sent as a bearer token'),
});

/** Settings of indexes of Python packages by their base URLs. */
export const pypi = z.record(indexUrl, index);

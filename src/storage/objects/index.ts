/** Content in a bucket. */

export { type Bucket, openBucket, type StoreProxyFor } from './bucket.ts';
export { openContentObjects } from './content-objects.ts';
export { type ContentReader, createContentReader } from './content-reader.ts';

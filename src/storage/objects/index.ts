/** Content in a bucket. */

export { type Bucket, openBucket } from './bucket/bucket.ts';
export type { StoreProxyFor } from './bucket/store-requests.ts';
export { openContentObjects } from './content-objects.ts';
export { type ContentReader, createContentReader } from './object-reads.ts';

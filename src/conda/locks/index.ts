/** Lock files as they are written, and packages pinned to a channel. */

export { splitChannel } from '../solving/wanted/pinned-channels.ts';
export { hasParts, isExplicitLock } from './explicit-entries.ts';
export { explicitLine, type LockedArchive } from './lock-entries.ts';
export { checkDigest, isLockText, maxLockLength, readLockEntries } from './read-lock-text.ts';

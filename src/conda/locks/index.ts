/** Lock files as they are written, and packages pinned to a channel. */

export { splitChannel } from '../solving/solver-spec.ts';
export { explicitLine, hasParts, isExplicitLock, type LockedArchive } from './lock-entries.ts';
export { checkDigest, isLockText, maxLockLength, readLockEntries } from './read-lock-text.ts';

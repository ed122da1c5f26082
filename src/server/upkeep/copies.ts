/** Backup, restore, the check of content and its move: commands load it. */

export { backup } from './backup.ts';
export { moveContent } from './move-content.ts';
export { restore } from './restore.ts';
export { verify } from './verify.ts';

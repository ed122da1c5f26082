/** Backup, restore, the check of content and its move: commands load it. */

export { backup, moveContent, restore } from './backup.ts';
export { verify } from './verify.ts';

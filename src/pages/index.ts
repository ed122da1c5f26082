/** Pages for people, loaded after the start, and their sessions. */

export { createSessionCookie, createSessions, sessionIdleMs } from './frame/sessions.ts';
export { createLatePages } from './late-pages.ts';

/** Pages for people, loaded after the start, and their sessions. */

export { createSessionCookie } from './account/session-cookie.ts';
export { createSessions, sessionIdleMs } from './account/sessions.ts';
export { createLatePages } from './late-pages.ts';

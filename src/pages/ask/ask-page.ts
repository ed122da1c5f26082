import { html } from '../frame/html.ts';
import { pageRoute } from '../frame/page-route.ts';

/** The first page: what this server is. */
export const askRoutes = [
  pageRoute({
    method: 'get',
    path: '/',
    access: 'anybody',
    run: (_, __: object) => ({
      title: 'Ask for a container',
      content: html`<h1>Containers on request</h1>
<p class="lead">This server returns the name of a container image for what you ask for: an image with changes, a list of packages, or a Dockerfile. Any client can pull that name.</p>`,
    }),
  }),
];

"""The pages of the admin port: what goes by, live, for a person with a browser.

Pages are rendered on the server from Jinja templates and can be read without script. Styles are those of the report
(`tool_call_evaluators.report`), with `assets/page.css`; scripts are the ES modules in `assets`.

To add a screen, write one module and one template, here with its screens in `SCREENS` of `site`, or in the folder of
another feature, with its screens in `screens` of its `FEATURE` and its template as `FOLDER/name.html`:

1. `NAME.py` has an async function that receives a `View` (the request, the running proxy, the agent) and returns
   the values of the template, and a `Screen("/name", "name.html", function, nav="Name")`. The function raises
   HTTPException for bad input and unknown ids; `StoreError` may pass. It may return a Response instead, for example a
   download.
2. The template extends `layout.html` and fills `title` and `main`. Values are escaped, and characters that
   would change what is displayed are neutralized. Never mark a value of an agent, user or suite as safe. The policy of
   the pages allows no inline style or script: draw bars as SVG, with attributes.
3. URLs are relative, so that pages work below a path prefix: `link("turns", turn_id)`, `link("", run="nightly")`, and
   `links.named` for names that agents or users choose.
4. Blocks of the template that scripts replace are named in `fragments`: `?fragment=NAME,NAME` renders these alone.
   Macros must be imported inside such a block.
5. A form that changes something posts to a path with `action`; the guard of the admin port refuses other origins.
6. A script is a file in `assets`, imported by `main.js`; it does nothing on pages without its elements.
"""

/// The files that the web page of a queue loads.
enum QueuePageFiles {
    static let style = """
        :root { --ink: #1c2024; --faint: #5c656e; --line: #dfe3e8; --ground: #ffffff; --field: #f4f6f8; --link: #0b57d0;
            --good: #17693a; --bad: #b3261e; --busy: #0b57d0; --wait: #7a5300; }
        @media (prefers-color-scheme: dark) {
            :root { --ink: #e4e7ea; --faint: #9aa4ae; --line: #343a41; --ground: #16191c; --field: #21262b; --link: #8ab4f8;
                --good: #6dd58c; --bad: #f2857c; --busy: #8ab4f8; --wait: #e3b341; }
        }
        * { box-sizing: border-box; }
        body { margin: 0; background: var(--ground); color: var(--ink); font: 15px/1.45 system-ui, sans-serif; }
        main { max-width: 1560px; margin: 0 auto; padding: 12px 20px 40px; }
        a { color: var(--link); text-decoration: none; }
        a:hover { text-decoration: underline; }
        header { display: flex; flex-wrap: wrap; align-items: baseline; gap: 4px 16px; }
        header form { margin-left: auto; display: flex; gap: 12px; align-items: baseline; }
        h1 { font-size: 22px; margin: 8px 0; }
        h2 { font-size: 16px; margin: 24px 0 8px; }
        .name { color: var(--faint); margin: 0; overflow-wrap: anywhere; }
        .states { display: grid; grid-template-columns: repeat(5, 1fr); gap: 8px; margin: 12px 0; }
        .states a { padding: 8px 12px; border: 1px solid var(--line); border-radius: 8px; color: var(--faint);
            background: var(--field); }
        .states b { display: block; font-size: 20px; color: var(--ink); font-variant-numeric: tabular-nums; }
        .states a[aria-current] { border-color: var(--link); box-shadow: inset 0 0 0 1px var(--link); }
        .states .failed b { color: var(--bad); }
        .states .done b { color: var(--good); }
        .wide { overflow-x: auto; }
        table { border-collapse: collapse; width: 100%; }
        th { text-align: left; font-weight: 600; font-size: 13px; color: var(--faint); }
        th, td { padding: 6px 12px 6px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
        .number { text-align: right; font-variant-numeric: tabular-nums; }
        .wide td, .wide th { white-space: nowrap; }
        .wide td:last-child { white-space: normal; min-width: 140px; }
        .number + td:not(.number), .number + th:not(.number) { padding-left: 12px; }
        tbody th { font-weight: 400; font-size: 15px; color: var(--ink); }
        .request, .remark, dd { overflow-wrap: anywhere; }
        .request { width: 42%; }
        .time, .change { white-space: nowrap; color: var(--faint); }
        .change { text-align: right; padding-right: 0; }
        .tag, .filter { display: inline-block; padding: 0 8px; border: 1px solid var(--line); border-radius: 10px; font-size: 13px;
            font-weight: 400; background: var(--field); overflow-wrap: anywhere; }
        .state { font-size: 13px; font-weight: 600; color: var(--faint); }
        .state.done { color: var(--good); }
        .state.failed { color: var(--bad); }
        .state.leased { color: var(--busy); }
        .state.retrying, .state.waiting, .state.held, .state.paused { color: var(--wait); }
        button, .button { font: inherit; font-size: 13px; padding: 3px 10px; margin-left: 6px; border: 1px solid var(--line);
            border-radius: 6px; background: var(--field); color: var(--ink); cursor: pointer; }
        button:hover, .button:hover { border-color: var(--link); text-decoration: none; }
        .many { margin: 8px 0; }
        .many:empty { display: none; }
        .many .button { display: inline-block; }
        .many .button:first-child, .confirm button, .buttons button:first-of-type { margin-left: 0; }
        .search { display: flex; flex-wrap: wrap; align-items: baseline; gap: 6px; margin-bottom: 8px; }
        .search input { font: inherit; flex: 1 1 200px; max-width: 480px; padding: 3px 10px; border: 1px solid var(--line);
            border-radius: 6px; background: var(--ground); color: var(--ink); }
        .search button { margin-left: 0; }
        .confirm { display: flex; flex-wrap: wrap; align-items: baseline; gap: 8px 20px; }
        .age { margin: 8px 0; color: var(--faint); }
        .unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
        #stale { margin: 0; padding: 6px 20px; background: var(--field); color: var(--bad); }
        [hidden] { display: none; }
        :focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
        .pages { display: flex; gap: 20px; }
        .none, .problem { color: var(--faint); }
        .problem { color: var(--bad); }
        dl { display: grid; grid-template-columns: max-content 1fr; gap: 6px 20px; }
        dt { color: var(--faint); }
        dd { margin: 0; }
        pre { padding: 12px; background: var(--field); border: 1px solid var(--line); border-radius: 8px; overflow-x: auto; }
        @media (min-width: 1100px) {
            .states { grid-template-columns: repeat(10, 1fr); }
        }
        @media (max-width: 760px) {
            main { padding: 8px 12px 32px; }
            .states { grid-template-columns: repeat(auto-fill, minmax(96px, 1fr)); }
            .states a { padding: 6px 8px; }
            .entries thead { display: none; }
            .entries, .entries tbody { display: block; }
            .entries tr { display: grid; grid-template-columns: 1fr auto; padding: 8px 0; border-bottom: 1px solid var(--line); }
            .entries td { border: 0; padding: 1px 0; }
            .entries .request, .entries .remark { grid-column: 1 / 3; width: auto; }
            .entries .time { grid-column: 1; }
            .entries .change { grid-column: 2; }
        }

        """

    /// A script that reloads the page every few seconds and updates its contents. Elements keep their identity, and with it
    /// the focus, unless they are gone. It waits while text is selected, or the pointer is on something that can be clicked
    /// and must not move away.
    static let script = """
        "use strict";
        let isLoading = false;
        function matches(one, other) {
            return one.nodeType === other.nodeType && one.nodeName === other.nodeName && (one.id || "") === (other.id || "");
        }
        function update(old, next) {
            if (old.nodeType !== Node.ELEMENT_NODE) {
                if (old.data !== next.data) old.data = next.data;
                return;
            }
            for (const { name } of [...old.attributes]) if (!next.hasAttribute(name)) old.removeAttribute(name);
            for (const { name, value } of next.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
            updateChildren(old, next);
        }
        function updateChildren(old, next) {
            const wanted = new Set([...next.children].map((child) => child.id).filter(Boolean));
            const known = new Map();
            for (const child of [...old.children]) {
                if (child.id && wanted.has(child.id)) known.set(child.id, child);
                else if (child.id) child.remove();
            }
            let place = old.firstChild;
            for (const child of [...next.childNodes]) {
                let same = child.id ? known.get(child.id) : place && !place.id && matches(place, child) ? place : null;
                if (same && !matches(same, child)) same = null;
                // Remove what is before it instead of moving it, which would take the focus away.
                while (same && place && place !== same && !place.id) {
                    const gone = place;
                    place = place.nextSibling;
                    gone.remove();
                }
                if (!same) {
                    old.insertBefore(child, place);
                    continue;
                }
                if (place === same) place = same.nextSibling;
                else old.insertBefore(same, place);
                update(same, child);
            }
            while (place) {
                const gone = place;
                place = place.nextSibling;
                gone.remove();
            }
        }
        function show(next) {
            const main = document.querySelector("main");
            const focused = main.contains(document.activeElement) ? document.activeElement : null;
            const rest = focused ? [focused.closest("tr[id]"), document.getElementById("entries")] : [];
            updateChildren(main, next);
            if (!focused || document.activeElement === focused) return;
            const links = rest.map((part) => part && part.isConnected ? part.querySelector("td a, th a") || part : null);
            const target = focused.isConnected ? focused : links.find(Boolean);
            if (target) target.focus({ preventScroll: true });
        }
        async function refresh() {
            const isInUse = !getSelection().isCollapsed || document.querySelector("main form :is(a, button):hover");
            if (document.hidden || isLoading || isInUse) return;
            isLoading = true;
            let isFresh = false;
            try {
                const response = await fetch(location.href, { credentials: "same-origin", redirect: "error" });
                const text = await response.text();
                const next = new DOMParser().parseFromString(text, "text/html").querySelector("main");
                isFresh = response.ok && next !== null;
                if (isFresh) show(next);
            } catch {
                // Keep the page until the program responds again.
            } finally {
                isLoading = false;
                document.getElementById("stale").hidden = isFresh;
            }
        }
        setInterval(refresh, 3000);

        """
}

# A cache in front of vitrine. Start it with
# varnishd -a visitors=:80 -a tellers=127.0.0.1:8081 -f /etc/varnish/varnish.vcl -s default,64m -p http_gzip_support=off
vcl 4.1;

import std;

backend vitrine {
    .host = "127.0.0.1";
    .port = "8080";
}

sub vcl_recv {
    # From vitrine's notify: do not use the copies of that group any more. Only vitrine may reach the
    # address of tellers. The client's address proves nothing: a visitor behind a TLS terminator on
    # this host has 127.0.0.1.
    if (req.method == "BAN") {
        if (local.socket != "tellers") {
            return (synth(403));
        }
        if (req.http.Cache-Groups !~ {"^"[a-z]+"$"}) {
            return (synth(400));
        }
        ban("obj.http.Cache-Groups ~ " + req.http.Cache-Groups);
        return (synth(200));
    }

    # vitrine looks at neither, and Varnish would not cache with them.
    unset req.http.Cookie;
    unset req.http.Authorization;

    # One copy for each coding, not for each way to list them.
    if (req.http.Accept-Encoding ~ "(?i)(^|,)\s*br\s*(,|$)") {
        set req.http.Accept-Encoding = "br";
    } elsif (req.http.Accept-Encoding ~ "(?i)(^|,)\s*zstd\s*(,|$)") {
        set req.http.Accept-Encoding = "zstd";
    } elsif (req.http.Accept-Encoding ~ "(?i)(^|,)\s*gzip\s*(,|$)") {
        set req.http.Accept-Encoding = "gzip";
    } else {
        unset req.http.Accept-Encoding;
    }

    # Copies stale beyond stale-while-revalidate are fetched first (see vcl_hit).
    if (req.restarts == 0) {
        unset req.http.X-Try;
    } elsif (req.http.X-Try == "fetch") {
        set req.grace = 0s;
    } else {
        set req.grace = 365d;
    }
}

sub vcl_backend_response {
    # An error replaces no copy.
    if (beresp.status >= 500) {
        set beresp.ttl = 0s;
        set beresp.grace = 0s;
        return (deliver);
    }
    # Varnish reads stale-while-revalidate into grace, but not stale-if-error. The copy is held for
    # the longer of the two; vcl_hit decides when it is used.
    set beresp.http.X-Revalidate = beresp.grace;
    set beresp.grace = std.duration(
        regsub(beresp.http.Cache-Control, "^.*stale-if-error=([0-9]+).*$", "\1s"), beresp.grace);
    # Kept longer still for conditional requests.
    set beresp.keep = 24h;
}

sub vcl_hit {
    if (req.restarts == 0 && obj.ttl + std.duration(obj.http.X-Revalidate + "s", 0s) < 0s) {
        set req.http.X-Try = "fetch";
        return (restart);
    }
}

sub vcl_deliver {
    if (resp.status >= 500 && req.http.X-Try == "fetch") {
        set req.http.X-Try = "stale";
        return (restart);
    }
    unset resp.http.X-Revalidate;
}
